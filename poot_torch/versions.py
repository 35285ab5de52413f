"""Version counters of arguments that a graph writes: moved as far as eager moves them.

AOTAutograd makes one write of all writes to an argument, and loses that `x.data = y` moves no counter. Dynamo ran the
user's operators on fake tensors, whose counters tell what eager does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

# What Dynamo makes of `x.data = y` and of `x.data`, whose writes move no counter.
_PAST_COUNTERS = (torch.Tensor.set_, getattr(torch._C._autograd, "_get_data_attr", None))


def moves(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> dict[int, int]:
    """How far eager moves the counter of arguments of Dynamo's graph, by position: of those written more than once, or
    through `data`. One write moves it once, in AOTAutograd's graph too.

    Empty where gradients are wanted: tensors saved for the backward remember the counter that AOTAutograd gave them.
    """
    tensors = [t for t in example_inputs if isinstance(t, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return {}
    nodes = list(gm.graph.nodes)
    inputs = [n for n in nodes if n.op == "placeholder"]
    detached = {n.args[0] for n in nodes if n.target in _PAST_COUNTERS}
    fakes = {i: n.meta.get("example_value") for i, n in enumerate(inputs)}
    counts = {i: t._version for i, t in fakes.items() if isinstance(t, torch.Tensor)}
    written = [i for i, count in counts.items() if count > 1 or inputs[i] in detached]
    if not written or any(isinstance(t, FakeTensor) for t in tensors):
        return {}
    before = _untouched(example_inputs)
    return {i: counts[i] - before[i] for i in written}


def _untouched(example_inputs: Sequence[Any]) -> list[int]:
    """Counters of fake tensors that nothing has written: making one that shares memory may move its counter."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    return [mode.from_tensor(t)._version if isinstance(t, torch.Tensor) else 0 for t in example_inputs]


def counted(compiled: Callable[..., Any], expected: dict[int, int]) -> Callable[..., Any]:
    """`compiled`, after whose calls the counters of arguments have moved by `expected`.

    The first call tells which of them differ; later calls look at no other.
    """
    differing: dict[int, int] | None = None

    @functools.wraps(compiled)
    def run(*args: Any) -> Any:
        nonlocal differing
        watched = expected if differing is None else differing
        if not watched:
            return compiled(*args)
        wanted = {i: args[i]._version + moved for i, moved in watched.items() if not args[i].is_inference()}
        results = compiled(*args)
        off = {i: version for i, version in wanted.items() if args[i]._version != version}
        if off:
            torch._C._autograd._unsafe_set_version_counter(tuple(args[i] for i in off), tuple(off.values()))
        if differing is None and len(wanted) == len(expected):
            differing = {i: expected[i] for i in off}
        return results

    return run
