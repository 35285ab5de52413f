"""Random draws whose numbers nobody reads: AOTAutograd drops them, eager does not.

A dropped draw would give every later draw other numbers and leave the generator in another state. Dynamo's graph still
holds them, so that they become results of the graph, which its caller never sees.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .dispatch import draws
from .provenance import source_line
from .trees import leaves

# What operators raise on fake tensors: sizes that depend on data, no fake implementation (RuntimeErrors all), or
# arguments that a later call of the graph has given other sizes.
_FAKE_ERRORS = (RuntimeError, IndexError, ValueError)


class _Watch(TorchDispatchMode):
    """Notes whether an operator that draws is called."""

    def __init__(self) -> None:
        super().__init__()
        self.drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew |= draws(func)
        return func(*args, **(kwargs or {}))


@dataclasses.dataclass
class Draws:
    """Where unused calls stand in the user's program: draws that were kept, and calls that cannot be told, with why."""

    kept: list[str] = dataclasses.field(default_factory=list)
    unclear: list[str] = dataclasses.field(default_factory=list)


def keep(gm: torch.fx.GraphModule) -> Draws:
    """Makes unused draws results of Dynamo's graph, behind its own.

    Changes `gm` in place; `without` takes the added results away again.
    """
    output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    found, unused = Draws(), []
    for node in _unread(gm, output):
        drew, why = _draws(gm, node)
        if drew:
            unused.append(node)
            found.kept.append(source_line(node))
        elif why:
            found.unclear.append(f"{source_line(node)}: {why}")
    if unused:
        with gm.graph.inserting_before(output):
            extra = [gm.graph.call_method("detach", (n,)) for n in unused]
        output.args = ((*output.args[0], *extra),)
        gm.recompile()
    return found


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


def _draws(gm: torch.fx.GraphModule, node: torch.fx.Node) -> tuple[bool, str]:
    """(whether the call draws, why it cannot be told). It is made once on fake tensors; where that fails, what it drew
    before counts."""
    mode = getattr(_fake(node)[0], "fake_mode", None)
    if mode is None:
        return False, "its results are no fake tensors"

    def load(n: torch.fx.Node) -> Any:
        if n.op != "get_attr" or "example_value" in n.meta:
            return n.meta.get("example_value")
        held = operator.attrgetter(str(n.target))(gm)
        return mode.from_tensor(held) if isinstance(held, torch.Tensor) else held

    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), load)
    called: Any = getattr(args[0], str(node.target)) if node.op == "call_method" else node.target
    if node.op == "call_method":
        args = args[1:]
    symbols = mode.shape_env.ignore_fresh_unbacked_symbols() if mode.shape_env else contextlib.nullcontext()
    watch = _Watch()
    with torch.no_grad(), mode, symbols, watch:
        try:
            called(*args, **kwargs)
        except _FAKE_ERRORS as e:
            return watch.drew, f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"
    return watch.drew, ""
