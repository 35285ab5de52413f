"""Draws into memory that is not contiguous, and from operands that are not: eager's numbers in eager's layout."""

import pytest
import torch

from poot_torch.backend import poot

F = torch.nn.functional
LAYOUTS = {
    "contiguous": lambda t: t.view(40, 36),
    "transposed": lambda t: t.view(40, 36).t(),
    "few": lambda t: t[:12].view(3, 4).t(),
    "gaps": lambda t: t.view(40, 36)[::2, ::3],
    "permuted gaps": lambda t: t.view(20, 2, 36).permute(2, 1, 0)[:, :1],
}
FILLS = {
    "normal_": lambda x: x.normal_(1, 2),
    "uniform_": lambda x: x.uniform_(-1, 1),
    "exponential_": lambda x: x.exponential_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "cauchy_": lambda x: x.cauchy_(),
    "log_normal_": lambda x: x.log_normal_(),
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "bernoulli_ of": lambda x: x.bernoulli_(torch.full_like(x, 0.4)),
    "dropout": lambda x: F.dropout(x, 0.5, inplace=True),
    "rrelu": lambda x: F.rrelu_(x, training=True),
}
RESULTS = {
    "like": lambda x: (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 100)),
    "normal": lambda x: (torch.normal(x, 1.0), torch.normal(0.0, x.abs()), torch.normal(x, x.abs())),
    "bernoulli": lambda x: (torch.bernoulli(x.abs()), torch.bernoulli(x, 0.3), x.bernoulli(p=0.3)),
    "counts": lambda x: (torch.poisson(x.abs()), torch.binomial(x.abs().ceil() * 7, x.abs())),
    "gamma": lambda x: torch._standard_gamma(x.abs() + 1),
    "dropout": lambda x: (F.dropout(x, 0.5), F.alpha_dropout(x, 0.5, True)),
    "rrelu": lambda x: (F.rrelu(x, training=True), F.rrelu(x)),
}


def run(fn, layout):
    x = LAYOUTS[layout](torch.linspace(-1, 1, 1440))
    torch.manual_seed(0)
    found = fn(x)
    return [x, *(found if isinstance(found, tuple) else (found,)), torch.rand(2)]


def same(fn, layout):
    torch._dynamo.reset()
    want = run(fn, layout)
    got = run(torch.compile(fn, backend=poot, fullgraph=True, options={"strict": True}), layout)
    for g, w in zip(got, want, strict=True):
        assert torch.equal(g, w)
        assert [s for s, n in zip(g.stride(), g.shape) if n > 1] == [s for s, n in zip(w.stride(), w.shape) if n > 1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FILLS)
def test_fills_in_the_order_of_memory(name, layout):
    same(FILLS[name], layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FILLS)
def test_fills_memory_that_was_written(name, layout):
    same(lambda x: FILLS[name](x.mul_(2)), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FILLS)
def test_fills_a_part(name, layout):
    same(lambda x: FILLS[name](x.select(-1, 0)), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", RESULTS)
def test_results(name, layout):
    same(RESULTS[name], layout)


def test_integers():
    """Dynamo leaves x.random_() to eager."""
    same(lambda x: torch.ops.aten.random_(x), "transposed")
    same(lambda x: torch.ops.aten.random_.to(x, 17), "gaps")


def test_complex_numbers():
    same(lambda x: torch.complex(x, x).normal_(), "transposed")
