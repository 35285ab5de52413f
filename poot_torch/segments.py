"""Graphs with sizes that depend on data: cut at the operators that make such sizes.

What lies between two cuts has only sizes that its arguments tell, and compiles as a graph of its own. The operators at
the cuts, and checks of the sizes they make, run live in PyTorch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.split_module import split_module

from . import _C, report
from .provenance import source_line

aten = torch.ops.aten
Boxed = Callable[[list[Any]], Any]


def makes_sizes(gm: torch.fx.GraphModule) -> bool:
    """Whether an operator of the graph yields a size or number that no argument tells."""
    return any(n.op == "call_function" and n.meta.get("unbacked_bindings") for n in gm.graph.nodes)


class _Segment(torch.nn.Module):
    """A compiled segment in the place of its graph."""

    def __init__(self, gm: torch.fx.GraphModule, boxed: Boxed) -> None:
        super().__init__()
        (results,) = next(n for n in gm.graph.nodes if n.op == "output").args
        self.boxed, self.several = boxed, isinstance(results, (list, tuple))

    def forward(self, *args: Any) -> Any:
        results = self.boxed(list(args))
        if self.several or not isinstance(results, (list, tuple)):
            return results
        return results[0]


def compile_segments(
    gm: torch.fx.GraphModule, compile_segment: Callable[[torch.fx.GraphModule], Boxed], region: report.Region
) -> Boxed:
    """A boxed callable that runs compiled and live segments in the graph's order."""
    place, live = _places(gm)
    split = split_module(gm, gm, lambda n: place[n], keep_original_order=True, keep_original_node_name=True)
    for name, segment in list(split.named_children()):
        assert isinstance(segment, torch.fx.GraphModule)
        if int(name.removeprefix("submod_")) in live:
            _report(region, segment)
        else:
            setattr(split, name, _Segment(segment, compile_segment(segment)))

    def run(args: list[Any]) -> Any:
        arguments = tuple(args)
        args.clear()
        return split(*arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _places(gm: torch.fx.GraphModule) -> tuple[dict[torch.fx.Node, int], set[int]]:
    """(number of each node's segment, ascending in the graph's order; numbers of the live ones)"""
    place: dict[torch.fx.Node, int] = {}
    live: set[int] = set()
    number = 0
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        source = node.args[0] if node.target is operator.getitem else None
        is_live = place[source] in live if source in place else _is_live(node)  # a pick goes with what it picks from
        if place and is_live != (number in live):
            number += 1
        if is_live:
            live.add(number)
        place[node] = number
    return place, live


def _is_live(node: torch.fx.Node) -> bool:
    val = node.meta.get("val")
    if isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return isinstance(val, torch.SymBool) or bool(free_unbacked_symbols(val))
    return bool(node.meta.get("unbacked_bindings")) or node.target is aten._assert_scalar.default


def _report(region: report.Region, segment: torch.fx.GraphModule) -> None:
    """Operators whose sizes depend on data are library calls."""
    entry = region.begin_graph("live", segment)
    makers = [n for n in segment.graph.nodes if n.meta.get("unbacked_bindings")]
    ops = [
        {"class": "library", "op": str(n.target), "kernel": "", "origins": [{"node": n.name, "source": source_line(n)}]}
        for n in makers
    ]
    entry.native = {**_C.empty_report(), "ops": ops, "dispatches_before": len(ops), "dispatches_after": len(ops)}
