"""What an FX graph says of its nodes: where tensors lie, what shows whose memory, what only orders effects."""

from __future__ import annotations

import operator

import torch

from .dispatch import WholeGraph
from .trees import leaves

aten = torch.ops.aten
# Nodes that only check something which guards have settled.
CHECKS = frozenset(
    getattr(aten, name).default
    for name in ("_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size")
    if hasattr(aten, name)
)
ASSERTIONS = frozenset((aten._assert_async.default, aten._assert_async.msg))
# Their results lie in their operand's memory, which autograd is not told.
_UNSAFE_VIEWS = frozenset(
    (
        aten._unsafe_view.default,
        aten.unsafe_split.Tensor,
        aten.unsafe_split_with_sizes.default,
        aten.unsafe_chunk.default,
        aten._reshape_alias.default,
    )
)


def view_base(node: torch.fx.Node) -> torch.fx.Node:
    """The node whose memory this one shows in eager: itself, or what it is a view of."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], torch.fx.Node):
        source = node.args[0]
        producer = source.target if node.target is operator.getitem else node.target
        if not getattr(producer, "is_view", False) and producer not in _UNSAFE_VIEWS:
            break
        node = source
    return node


def is_host_number(val: torch.Tensor) -> bool:
    """A tensor that eager takes beside tensors of a device."""
    return val.device.type == "cpu" and val.ndim == 0


def device_of(gm: torch.fx.GraphModule) -> torch.device:
    """Where the graph's tensors lie. Raises WholeGraph if they lie on several devices."""
    found: dict[torch.device, torch.fx.Node] = {}
    for node in gm.graph.nodes:
        for t in leaves(node.meta.get("val")):
            if isinstance(t, torch.Tensor) and not is_host_number(t) and not is_token(node):
                found.setdefault(t.device, node)
    if len(found) > 1:
        where = ", ".join(f"{n.name} on {d}" for d, n in found.items())
        raise WholeGraph(f"tensors on several devices: {where}")
    device = next(iter(found), torch.device("cpu"))
    if device.type not in ("cpu", "cuda"):
        raise WholeGraph(f"tensors on {device}")
    return device


def is_token(node: torch.fx.Node) -> bool:
    """Whether an argument only orders effects."""
    effects = torch.ops.higher_order.with_effects
    return any(user.target is effects and user.args[0] is node for user in node.users)
