"""The option `fast_random`: draws are part of kernels; distributions, seeds and gradients are right."""

import math

import pytest
import torch

import poot_torch
from poot_torch.backend import poot

F = torch.nn.functional
N = 200_000
OPTIONS = {"fast_random": True, "strict": True}


def compiled(fn):
    torch._dynamo.reset()
    return torch.compile(fn, backend=poot, options=OPTIONS)


def drawn(fn, *args, seed=0):
    torch.manual_seed(seed)
    return compiled(fn)(*args)


def check_moments(x, mean, variance):
    """Within five standard errors of mean and variance."""
    x = x.double()
    assert abs(x.mean().item() - mean) <= 5 * math.sqrt(variance / x.numel())
    fourth = ((x - x.mean()) ** 4).mean().item()
    assert abs(x.var().item() - variance) <= 5 * math.sqrt(max(fourth - variance**2, 1e-12) / x.numel())


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16, torch.float16))
def test_uniform(dtype):
    u = drawn(lambda: torch.rand(N, dtype=dtype))
    assert u.dtype is dtype and u.min() >= 0 and u.max() < 1
    spacing = torch.finfo(dtype).eps / 2
    check_moments(u.double() + spacing / 2, 0.5, (1 - spacing**2) / 12)
    steps = torch.histc(u.float(), 64, 0, 1)
    chi_squared = ((steps - N / 64) ** 2 / (N / 64)).sum()
    assert chi_squared < 63 + 5 * math.sqrt(2 * 63)
    pairs = torch.corrcoef(torch.stack([u[:-1].double(), u[1:].double()]))[0, 1]
    assert abs(pairs) < 5 / math.sqrt(N)


def test_distributions():
    check_moments(drawn(lambda: torch.randn(N)), 0.0, 1.0)
    check_moments(drawn(lambda: torch.randn(N, dtype=torch.float64)), 0.0, 1.0)
    check_moments(drawn(lambda: torch.empty(N).normal_(3.0, 0.5)), 3.0, 0.25)
    check_moments(drawn(lambda: torch.empty(N).uniform_(-2, 6)), 2.0, 64 / 12)
    check_moments(drawn(lambda: torch.empty(N).exponential_(2.0)), 0.5, 0.25)
    check_moments(drawn(lambda: torch.bernoulli(torch.full((N,), 0.3))), 0.3, 0.21)
    r = drawn(lambda: torch.randint(-3, 9, (N,)))
    assert r.dtype is torch.int64 and r.min() == -3 and r.max() == 8
    check_moments(r, 2.5, 143 / 12)


def test_one_seed_gives_the_same_numbers_and_each_call_others():
    fn = compiled(lambda x: (F.dropout(x, 0.5), torch.rand(1000)))
    x = torch.ones(1000)
    torch.manual_seed(1)
    first, second = fn(x), fn(x)
    torch.manual_seed(1)
    again = fn(x)
    for a, b, c in zip(first, second, again, strict=True):
        assert torch.equal(a, c) and not torch.equal(a, b)
    assert not torch.equal(first[0] != 0, first[1] < 0.5), "two draws of a call are independent"


def test_any_number_of_threads_draws_the_same():
    fn = compiled(lambda: torch.rand(N) + torch.randn(N))
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.manual_seed(5)
            results.append(fn())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("p", (0.0, 0.1, 1.0))
def test_dropout_and_its_gradient(p, dtype):
    x = torch.rand(300, 400, dtype=dtype).add_(0.5).requires_grad_()
    y = drawn(lambda x: F.dropout(x, p) * 2, x)
    y.sum().backward()
    kept = y != 0
    factor = 2 / (1 - p) if p < 1 else 0.0
    torch.testing.assert_close(y, torch.where(kept, x * factor, 0))
    torch.testing.assert_close(x.grad, torch.where(kept, torch.tensor(factor, dtype=dtype), 0))
    check_moments(kept, 1 - p, p * (1 - p))


def test_dropout_is_part_of_a_kernel():
    report = poot_torch.explain(lambda x: F.dropout(x.exp(), 0.1) * 2, **OPTIONS)(torch.rand(64, 64))
    (graph,) = report.graphs
    assert graph.classes()["library"] == 1  # the seed
    assert len(graph.native["kernels"]) == 1


def test_dynamic_sizes():
    fn = torch.compile(lambda x: F.dropout(x, 0.25), backend=poot, options=OPTIONS, dynamic=True)
    for n in (1000, 3001, 70_000):
        check_moments(fn(torch.ones(n)) != 0, 0.75, 0.1875)


def test_training_learns():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1))
    x = torch.randn(256, 8)
    target = x.sum(1, keepdim=True)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    run = torch.compile(lambda x: F.mse_loss(net(x), target), backend=poot, options=OPTIONS)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        losses.append(run(x))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0] / 5
