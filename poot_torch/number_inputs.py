"""0-d f64 tensors on the CPU among a graph's inputs, which Dynamo holds for numbers that `item()` may read.

AOTAutograd asks for another trace, in which such inputs are constants, where it could not make tensors of these
numbers; it does so too where nothing reads them. Of that trace Dynamo drops every node without readers that shows one
of them (`OutputGraph.remove_tensorify_specialized_graphargs`), updates in place among them: `x.mul_(2)` would be lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.source import CallMethodItemSource
from torch._dynamo.symbolic_convert import TensorifyState
from torch._subclasses import FakeTensor
from torch.utils._sympy.symbol import SymT, symbol_is_type

from .errors import Unsupported
from .provenance import source_line


def _held() -> set[str]:
    """Names of the numbers of the graph's f64 inputs."""
    context = torch._guards.TracingContext.try_get()
    env = context.fake_mode.shape_env if context is not None and context.fake_mode is not None else None
    return {
        str(symbol)
        for symbol, sources in (env.var_to_sources if env is not None else {}).items()
        if symbol_is_type(symbol, SymT.FLOAT) and any(isinstance(s, CallMethodItemSource) for s in sources)
    }


def _read(gm: torch.fx.GraphModule) -> set[str]:
    numbers = (torch.SymFloat, torch.SymInt, torch.SymBool)
    values = (n.meta.get("example_value") for n in gm.graph.nodes)
    return {str(s) for v in values if isinstance(v, numbers) for s in v.node._expr.free_symbols}


def _dropped(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """What another trace would lose."""

    def shows_a_number(value: Any) -> bool:
        return isinstance(value, FakeTensor) and value.item_memo is not None

    inputs = ("placeholder", "get_attr", "output")
    return [
        n for n in gm.graph.nodes if n.op not in inputs and not n.users and shows_a_number(n.meta.get("example_value"))
    ]


@contextlib.contextmanager
def are_tensors(gm: torch.fx.GraphModule) -> Iterator[None]:
    """Within, AOTAutograd asks for no other trace of Dynamo's graph for inputs whose number is not read.

    Raises Unsupported where another trace is needed and would lose an update.
    """
    marked = _held() - _read(gm) - TensorifyState.force_specializations
    TensorifyState.force_specializations |= marked
    try:
        yield
    except TensorifyScalarRestartAnalysis as e:
        lost = _dropped(gm)
        if lost:
            where = f" at {source_line(lost[0])}"
            raise Unsupported(
                f"torch.compile would lose {lost[0].name}{where}: it takes its operand for a number"
            ) from e
        raise
    finally:
        TensorifyState.force_specializations -= marked
