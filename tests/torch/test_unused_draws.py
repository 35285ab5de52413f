"""Draws whose numbers nobody reads are made: one seed gives eager's numbers and leaves eager's generator state."""

import pytest
import torch
from torch._dynamo.utils import counters

import poot_torch
from poot_torch.backend import poot

F = torch.nn.functional


def plain(x):
    torch.rand(3)
    F.dropout(x, 0.5)
    return x + torch.rand(3)


def feeding_dead_values(x):
    y = torch.rand_like(x) + 1
    y.mul_(2)
    return x + torch.rand(3)


def in_place(x):
    torch.empty(4).uniform_()
    z = x.clone()
    z.normal_()
    w = x.clone()
    w.exponential_()
    return x + torch.rand(3), w * 2


def integers(x):
    torch.randperm(5)
    torch.randint(0, 9, (2,))
    return torch.bernoulli(x.sigmoid())


def several(x):
    torch.rand(2)
    return [x * torch.rand(3), {"b": torch.randn(3)}]


FUNCTIONS = (plain, feeding_dead_values, in_place, integers, several)


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("gradients", (False, True))
def test_numbers_and_state_are_eagers(fn, gradients):
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(fn, backend=poot)
    for seed in range(2):
        found = []
        for f in (fn, compiled):
            torch.manual_seed(seed)
            x = torch.arange(3.0).requires_grad_(gradients)
            results = torch.utils._pytree.tree_leaves(f(x))
            if gradients and any(r.requires_grad for r in results):
                sum(r.sum() for r in results if r.requires_grad).backward()
                results.append(x.grad)
            found.append([*results, torch.get_rng_state()])
        for want, got in zip(*found, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert counters["stats"]["unique_graphs"] == 1


def test_the_report_says_where():
    report = poot_torch.explain(plain)(torch.ones(3))
    (region,) = report.to_json()["regions"]
    assert [line.rpartition(": ")[2] for line in region["kept_draws"]] == ["torch.rand(3)", "F.dropout(x, 0.5)"]
    assert "unused draw" in str(report)


def test_other_dead_values_stay_dropped():
    def fn(x):
        x.exp().sum()
        F.dropout(x, 0.5, training=False)
        return x + 1

    report = poot_torch.explain(fn)(torch.ones(3))
    assert report.to_json()["regions"][0]["kept_draws"] == []
    assert report.totals()["classes"]["generated"] == 1


def test_a_call_that_cannot_be_told_is_reported():
    def fn(x):
        y = x.clone()
        y @ x.t()  # made again on fake tensors when the trace is over: y has other sizes then
        y.t_()
        return x + y.sum()

    x = torch.randn(2, 3)
    report = poot_torch.explain(fn)(x)
    (region,) = report.to_json()["regions"]
    assert region["kept_draws"] == []
    assert len(region["unclear_draws"]) == 1 and "y @ x.t()" in region["unclear_draws"][0]
    assert "may draw" in str(report)
