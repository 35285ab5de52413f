"""A backward graph in which some incoming gradients are absent: what only they reach is neither computed nor returned.

Eager's backward does not visit the operators of a result that nothing reads; zeros in the place of an absent gradient
would be written, read and added, and zeros would be the gradient of what only that result depends on.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten
# The result is zero where the operand is.
_KEEPING = frozenset(
    (
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.t.default,
        aten.transpose.int,
        aten.permute.default,
        aten.expand.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.slice.Tensor,
        aten.select.int,
        aten.clone.default,
        aten.alias.default,
        aten.neg.default,
        aten._to_copy.default,
        aten.sum.default,
        aten.sum.dim_IntList,
        aten.div.Scalar,
        aten.mul.Scalar,
    )
)
# The result is zero where either operand is.
_PRODUCTS = frozenset((aten.mul.Tensor, aten.mm.default, aten.bmm.default))


def remove(gm: torch.fx.GraphModule, absent: frozenset[int]) -> None:
    """Changes the graph in place: the incoming gradients at these positions are None, and so are the results that
    depend on no other."""
    graph = gm.graph
    sources = incoming_of(gm)
    missing = [n for i, n in enumerate(_incoming(gm)) if i in absent]
    zero = set(missing)
    output = next(n for n in reversed(graph.nodes) if n.op == "output")
    output.args = ([None if s and s <= absent else r for r, s in zip(output.args[0], sources, strict=True)],)
    filled: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in list(graph.nodes):
        if node.op == "placeholder" or not any(n in zero for n in node.all_input_nodes):
            continue
        first, second = (*node.args[:2], None, None)[:2]
        if (node.target in _KEEPING and first in zero) or (
            node.target in _PRODUCTS and (first in zero or second in zero)
        ):
            zero.add(node)
        elif node.target is aten.div.Tensor and first in zero and second not in zero:
            zero.add(node)
        elif node.target is aten.add.Tensor and first in zero and second in zero:
            zero.add(node)
        elif node.target is aten.add.Tensor and not node.kwargs and (other := _other(node, zero)) is not None:
            node.replace_all_uses_with(other)
        else:
            _fill(graph, node, zero, filled)
    for node in missing:
        node.meta["val"] = None
    graph.eliminate_dead_code()
    gm.recompile()


def incoming_of(gm: torch.fx.GraphModule) -> list[frozenset[int]]:
    """Positions of the incoming gradients that each result of a backward graph depends on."""
    positions = {n: i for i, n in enumerate(_incoming(gm))}
    reached: dict[torch.fx.Node, frozenset[int]] = {}
    for node in gm.graph.nodes:
        if node.op == "output":
            return [reached[r] if isinstance(r, torch.fx.Node) else frozenset() for r in node.args[0]]
        own = frozenset((positions[node],)) if node in positions else frozenset()
        reached[node] = own.union(*(reached[n] for n in node.all_input_nodes))
    raise AssertionError("a graph without an output")


def _incoming(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
    return [n for n in inputs if type(n.meta.get("desc")).__name__ == "TangentAOTInput"]


def _other(node: torch.fx.Node, zero: set[torch.fx.Node]) -> torch.fx.Node | None:
    """The operand of a sum that is all of it."""
    others = [n for n in node.args if isinstance(n, torch.fx.Node) and n not in zero]
    if len(others) != 1 or len(node.args) != 2:
        return None
    want, value = node.meta["val"], others[0].meta.get("val")
    same = isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (want.shape, want.dtype)
    return others[0] if same else None


def _fill(
    graph: torch.fx.Graph, node: torch.fx.Node, zero: set[torch.fx.Node], filled: dict[torch.fx.Node, torch.fx.Node]
) -> None:
    """Gives the node zeros that are there."""
    for operand in [n for n in node.all_input_nodes if n in zero]:
        if operand not in filled:
            value: Any = operand.meta["val"]
            kwargs = {"dtype": value.dtype, "device": value.device}
            with graph.inserting_before(node):
                made = graph.call_function(aten.full.default, (list(value.shape), 0), kwargs)
            with value.fake_mode:
                made.meta["val"] = torch.empty(value.shape, **kwargs)
            filled[operand] = made
        node.replace_input_with(operand, filled[operand])
