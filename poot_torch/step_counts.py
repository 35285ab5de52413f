"""What optimizers compute from their step counts: bias corrections and the like.

They keep counts (and running products) in 0-d f32 tensors. Eager reads these by `item()` and goes on in Python's
numbers; traced, the same lines compute in f32, and `1 - 0.999 ** step` loses four digits. Here such a tensor is read as
f64.
"""

from __future__ import annotations

import operator
import pathlib
from typing import Any

import torch

_OPTIMIZERS = str(pathlib.Path(torch.optim.__file__).parent)
_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow)
_INPUTS = ("placeholder", "get_attr")
_COUNTING = (operator.iadd, torch._foreach_add_)
_MULTIPLYING = (operator.imul, torch._foreach_mul_)


def _is_number(node: Any) -> bool:
    value = node.meta.get("example_value")
    return (
        isinstance(value, torch.Tensor)
        and value.dtype is torch.float32
        and value.ndim == 0
        and value.device.type == "cpu"
    )


def _in_optimizer(node: torch.fx.Node) -> bool:
    frames = [line for line in (node.meta.get("stack_trace") or "").splitlines() if line.lstrip().startswith("File ")]
    return bool(frames) and _OPTIMIZERS in frames[-1]


def _computes(node: torch.fx.Node) -> bool:
    """Out of place."""
    name = getattr(node.target, "__name__", "")
    listed = name.startswith("_foreach_") and not name.endswith("_")
    return node.op == "call_function" and (listed or node.target in _ARITHMETIC)


def _listed(a: Any) -> list[Any]:
    return list(a) if isinstance(a, (list, tuple)) else [a]


def _updated(node: torch.fx.Node) -> list[Any]:
    """The counts and products that it writes: those count by one, these are multiplied by numbers. Nothing where the
    state of a parameter is updated, which may be 0-d too."""
    if node.target in _COUNTING and node.args[1] != 1:
        return []
    if node.target in _MULTIPLYING and not all(
        isinstance(n, torch.fx.Node) and _is_number(n) for n in _listed(node.args[1])
    ):
        return []
    written = _listed(node.args[0])
    return written if all(isinstance(n, torch.fx.Node) and _is_number(n) for n in written) else []


def _read_as(node: torch.fx.Node, operand: torch.fx.Node, dtype: torch.dtype) -> None:
    with node.graph.inserting_before(node):
        read = node.graph.call_method("to", (operand, dtype))
    read.meta["example_value"] = operand.meta["example_value"].to(dtype)
    node.replace_input_with(operand, read)


def widen(gm: torch.fx.GraphModule) -> bool:
    """Changes Dynamo's graph in place; whether it did."""
    updated: set[Any] = set()
    changed = False
    for node in list(gm.graph.nodes):
        if not _in_optimizer(node):
            continue
        if node.target in (*_COUNTING, *_MULTIPLYING):
            written = _updated(node)
            if not written or not all(n.op in _INPUTS or n in updated for n in written):
                continue
            updated.update(written, [node])  # as a value it is what it wrote, if that is one
            for n in [n for n in node.all_input_nodes if n not in updated and _is_number(n)]:
                _read_as(node, n, torch.float32)  # as eager rounds a number that multiplies a tensor
        elif _computes(node):
            for n in [n for n in node.all_input_nodes if n in updated]:
                _read_as(node, n, torch.float64)
                changed = True
    return changed
