"""Random draws whose numbers nobody reads: AOTAutograd drops them, eager does not.

A dropped draw would give every later draw other numbers and leave the generator in another state. Dynamo's graph still
holds them, so that they become results of the graph, which its caller never sees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .dispatch import draws
from .provenance import source_line
from .trees import leaves


class _Watch(TorchDispatchMode):
    """Notes whether an operator that draws is called."""

    def __init__(self) -> None:
        super().__init__()
        self.drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew |= draws(func)
        return func(*args, **(kwargs or {}))


def keep(gm: torch.fx.GraphModule) -> list[str]:
    """Makes unused draws results of Dynamo's graph, behind its own; returns where they stand in the user's program.

    Changes `gm` in place; `without` takes the added results away again.
    """
    output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    unused = [n for n in _unread(gm, output) if _draws(n)]
    if not unused:
        return []
    with gm.graph.inserting_before(output):
        extra = [gm.graph.call_method("detach", (n,)) for n in unused]
    output.args = ((*output.args[0], *extra),)
    gm.recompile()
    return [source_line(n) for n in unused]


def without(added: int, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled graph without its last `added` results."""

    @functools.wraps(compiled)
    def run(*args: Any) -> Any:
        return compiled(*args)[:-added]

    return run


def _unread(gm: torch.fx.GraphModule, output: torch.fx.Node) -> list[torch.fx.Node]:
    """Calls with tensor results on which no result of the graph depends."""
    read: set[torch.fx.Node] = set()
    todo = [output]
    while todo:
        node = todo.pop()
        if node not in read:
            read.add(node)
            todo.extend(node.all_input_nodes)
    calls = [n for n in gm.graph.nodes if n.op in ("call_function", "call_method") and n not in read]
    return [n for n in calls if _fake(n) and not _writes_what_is_read(n, read)]


def _writes_what_is_read(node: torch.fx.Node, read: set[torch.fx.Node]) -> bool:
    """`z.normal_()`, where what z holds is used."""
    written = node.op == "call_method" and str(node.target).endswith("_") and not str(node.target).endswith("__")
    return written and (node.args[0] in read or getattr(node.args[0], "op", "") == "placeholder")


def _fake(node: torch.fx.Node) -> list[torch.Tensor]:
    return [t for t in leaves(node.meta.get("example_value")) if isinstance(t, torch.Tensor)]


def _draws(node: torch.fx.Node) -> bool:
    """Whether the call draws: it is made once on fake tensors."""
    mode = getattr(_fake(node)[0], "fake_mode", None)
    if mode is None:
        return False
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("example_value"))
    watch = _Watch()
    with torch.no_grad(), mode, watch:
        try:
            if node.op == "call_method":
                getattr(args[0], str(node.target))(*args[1:], **kwargs)
            elif callable(node.target):
                node.target(*args, **kwargs)
        except Exception:
            return watch.drew  # e.g. a shape that depends on data; what it drew before counts
    return watch.drew
