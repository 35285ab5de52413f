"""Operators that take functions: scans and maps are written out in terms of ordinary operators before tracing.

AOTAutograd then traces, differentiates and decomposes what their functions do. An associative scan takes a number of
steps that grows with the logarithm of its length; `scan` and `map` repeat their function once an element, so that long
ones stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LONGEST = 64  # elements over which a function is repeated


def _associative_scan(combine: Callable[..., Any], xs: Any, additional: Any) -> Any:
    from torch._higher_order_ops.associative_scan import generic_associative_scan

    return generic_associative_scan(combine, list(xs), additional_inputs=tuple(additional))


def _scan(combine: Callable[..., Any], init: Any, xs: Any, additional: Any) -> Any:
    carry, steps = list(init), []
    for i in range(xs[0].shape[0]):
        results = list(combine(*carry, *(x.select(0, i) for x in xs), *additional))
        carry = results[: len(carry)]
        steps.append(results[len(carry) :])
    return [*carry, *(torch.stack(ys) for ys in zip(*steps, strict=True))]


def _map(fn: Callable[..., Any], xs: Any, additional: Any) -> Any:
    steps = [fn(*(x.select(0, i) for x in xs), *additional) for i in range(xs[0].shape[0])]
    return [torch.stack(ys) for ys in zip(*steps, strict=True)]


def _length(node: torch.fx.Node, position: int) -> int | None:
    """Of what the node runs over; None if it is symbolic or unknown."""
    sources = node.args[position] if len(node.args) > position else ()
    for x in sources if isinstance(sources, (list, tuple)) else ():
        value = x.meta.get("example_value") if isinstance(x, torch.fx.Node) else None
        size = value.shape[0] if isinstance(value, torch.Tensor) and value.ndim else None
        return size if isinstance(size, int) else None
    return None


def expand(gm: torch.fx.GraphModule) -> None:
    """Changes Dynamo's graph in place."""
    changed = False
    for node in gm.graph.nodes:
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        name = node.target.name()
        length = _length(node, 2 if name == "scan" else 1)
        if name == "associative_scan":
            node.target = _associative_scan
        elif name == "scan" and length is not None and length <= _LONGEST:
            node.target = _scan
        elif name == "map_impl" and length is not None and length <= _LONGEST:
            node.target = _map
        else:
            continue
        changed = True
    if changed:
        gm.recompile()
