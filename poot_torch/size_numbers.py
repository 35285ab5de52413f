"""Floating-point numbers that are computed from sizes, such as the ratio of two, or read from tensors: 0-d values of
f64, as Python computes them."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _C
from .emitter import Emitter, Val, is_float
from .symbols import Unbindable

aten = torch.ops.aten
_STEPS: dict[Any, str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.truediv: "div",
    operator.pow: "pow",
    torch.sym_sqrt: "sqrt",
}
# Operators that compute with a 0-d tensor what they compute with a number.
_READERS = frozenset(
    (
        aten.add.Tensor,
        aten.add.Scalar,
        aten.sub.Tensor,
        aten.sub.Scalar,
        aten.mul.Tensor,
        aten.mul.Scalar,
        aten.div.Tensor,
        aten.div.Scalar,
        aten.true_divide.Tensor,
        aten.full.default,
        aten.scalar_tensor.default,
    )
)


@dataclasses.dataclass(frozen=True)
class SizeNumber:
    value: Val


def computed(e: Emitter, node: torch.fx.Node, value: Callable[[torch.fx.Node], Any]) -> SizeNumber | Unbindable:
    """What the node makes of sizes and such numbers, whose values `value` tells; the reason where it is nothing known,
    which matters only if something reads it."""
    try:
        args = [_wide(e, value(a) if isinstance(a, torch.fx.Node) else a) for a in node.args]
    except Unbindable as reason:
        return reason
    if node.target is torch.sym_float:
        return SizeNumber(args[0])
    if node.target not in _STEPS:
        return Unbindable(f"{node.target} of a symbolic size")
    return SizeNumber(e.emit(_STEPS[node.target], *args))


def _wide(e: Emitter, x: Any) -> Val:
    if isinstance(x, SizeNumber):
        return x.value
    if not isinstance(x, (int, float, _C.Dim)):
        raise Unbindable("a number that depends on data")
    return e.value(x, torch.float64)


def entering(e: Emitter, number: SizeNumber, target: Any, result: Any) -> Val:
    """The number as `target` reads it: in what it computes in. Raises Unbindable where it must be a number."""
    if target not in _READERS or not is_float(result.dtype):
        raise Unbindable(f"{target} of a number that depends on a size")
    return e.cast(number.value, torch.float64 if result.dtype is torch.float64 else torch.float32)


def given(run: Callable[..., Any], positions: Sequence[int]) -> Callable[..., Any]:
    """`run`, a boxed callable, that gets the numbers among its arguments as tensors."""
    if not positions:
        return run

    def with_numbers(args: list[Any]) -> Any:
        for i in positions:
            args[i] = torch.tensor(args[i], dtype=torch.float64)
        return run(args)

    with_numbers._boxed_call = True  # type: ignore[attr-defined]
    return with_numbers
