"""Kinds of slowness that users reported against torch.compile backends, with the discussion's number.

Bounds are wide enough for a busy machine: they fail where a kind of slowness is back. Figures are `qualification`'s.
"""

import time

import pytest
import torch
from torch import nn

from poot_torch.backend import poot
from qualification import call_cost
from qualification.paired import measure

STRICT = {"strict": True}


def timed(**calls):
    return measure(calls, rounds=5, block_seconds=0.03)


@pytest.fixture(autouse=True)
def one_thread_without_gradients():
    """A team of threads waits for whoever else uses the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def test_a_tiny_model_is_not_slower_than_eager():  # 149116: Lennard-Jones
    torch.manual_seed(0)
    layers = [nn.Linear(1, 16)]
    for _ in range(3):
        layers += [nn.Tanh(), nn.Linear(16, 16)]
    model = nn.Sequential(*layers, nn.Tanh(), nn.Linear(16, 1))
    compiled = torch.compile(model, backend=poot, options=STRICT)
    x = torch.randn(1000, 1)
    torch.testing.assert_close(compiled(x), model(x))
    ratio, *_ = timed(eager=lambda: model(x), poot=lambda: compiled(x)).ratio("poot", "eager")
    assert ratio > 0.9, "eager's time over poot's"


def test_a_call_costs_little_beside_its_kernels():  # 191753, 161783
    (graph,) = [g for g in call_cost.graphs() if g.name == "two ops, 64 elements"]
    _, (boxed,) = call_cost.compiled(graph, "poot")
    best = float("inf")
    for _ in range(2000):
        args = list(graph.args)
        start = time.perf_counter()
        boxed(args)
        best = min(best, time.perf_counter() - start)
    assert best < 10e-6


def test_interleaved_loads_and_horizontal_reductions_keep_the_memory_busy():  # 122813, 110611
    def rope(x, cos, sin):
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    x, half = torch.randn(2048, 1024), torch.rand(2048, 512)
    turn = torch.compile(rope, backend=poot, options=STRICT)
    normalise = torch.compile(lambda x: torch.log_softmax(x, -1), backend=poot, options=STRICT)
    torch.testing.assert_close(turn(x, half, half), rope(x, half, half))
    torch.testing.assert_close(normalise(x), torch.log_softmax(x, -1))
    found = timed(copy=lambda: x.clone(), rope=lambda: turn(x, half, half), rows=lambda: normalise(x))
    moved = {"rope": 1.5, "rows": 1.0}  # bytes beside the copy's
    for name, share in moved.items():
        assert share * found.median("copy") / found.median(name) > 0.2, f"{name}: share of a copy's bandwidth"
