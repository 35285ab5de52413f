"""Operators over graphs: control flow (cond, while_loop, scan …) and wrappers of calls.

PyTorch's own implementation runs at the node's place. The graphs among its operands are compiled as graphs of their
own, and it calls those.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from . import _C
from .trees import leaves, mapped

Boxed = Callable[[list[Any]], Any]
CompileBody = Callable[[torch.fx.GraphModule], Boxed]


@dataclasses.dataclass(frozen=True)
class _Place:
    """Marks an argument that the call gets: number `index` of its values."""

    index: int


class _Body:
    """A compiled graph as the plain function that PyTorch's implementation calls."""

    def __init__(self, boxed: Boxed, several: bool) -> None:
        self.boxed, self.several = boxed, several

    def __call__(self, *args: Any) -> Any:
        results = self.boxed(list(args))
        if self.several:
            return tuple(results)
        return results[0] if isinstance(results, (list, tuple)) else results


class _Call:
    """One call of a higher-order operator, all but its tensors and sizes bound."""

    def __init__(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.target, self.args, self.kwargs = target, args, kwargs

    def __call__(self, values: list[Any]) -> list[torch.Tensor]:
        fill = lambda a: values[a.index] if isinstance(a, _Place) else a  # noqa: E731
        args = tuple(mapped(fill, a) for a in self.args)
        with torch.no_grad():
            out = self.target(*args, **{k: mapped(fill, v) for k, v in self.kwargs.items()})
        return [t for t in leaves(out) if isinstance(t, torch.Tensor)]


def describe_draws(gm: torch.fx.GraphModule) -> None:
    """Gives the draws that activation checkpointing repeats their fake results, which the partitioner leaves out."""
    prims = torch.ops.higher_order
    for node in gm.graph.nodes:
        if "val" in node.meta or node.target not in (prims.run_and_save_rng_state, prims.run_with_rng_state):
            continue
        saves = node.target is prims.run_and_save_rng_state
        draw, *rest = node.args if saves else node.args[1:]
        args, kwargs = torch.fx.map_arg((tuple(rest), node.kwargs), lambda n: n.meta["val"])
        modes = [n.meta["val"].fake_mode for n in gm.graph.nodes if hasattr(n.meta.get("val"), "fake_mode")]
        with modes[0]:
            drawn = draw(*args, **kwargs)
            node.meta["val"] = (torch.empty(torch.get_rng_state().shape, dtype=torch.uint8), drawn) if saves else drawn


def bind(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], compile_body: CompileBody
) -> tuple[list[Any], Callable[[list[Any]], list[torch.Tensor]]]:
    """(the operand slots and sizes among the arguments, a function from their values to the result tensors)."""
    places: list[Any] = []

    def place(a: Any) -> Any:
        if isinstance(a, (_C.OperandSlot, _C.Dim)):
            places.append(a)
            return _Place(len(places) - 1)
        if isinstance(a, torch.fx.GraphModule):
            return _Body(compile_body(a), _yields_several(a))
        return a

    call = _Call(target, tuple(mapped(place, a) for a in args), {k: mapped(place, a) for k, a in kwargs.items()})
    return places, call


def _yields_several(gm: torch.fx.GraphModule) -> bool:
    (results,) = next(n for n in gm.graph.nodes if n.op == "output").args
    return isinstance(results, (list, tuple))
