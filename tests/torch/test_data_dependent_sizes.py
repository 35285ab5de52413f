"""Operators whose result sizes depend on data run live; what lies between them compiles."""

import pytest
import torch
from torch._dynamo.utils import counters

import poot_torch
from poot_torch.backend import poot


@pytest.fixture(autouse=True)
def captured():
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield


def masked(x):
    return (x * 2)[x > 0].exp() + 1


def places(x):
    return torch.nonzero(x > 0) * 2 + 1


def twice(x):
    y = x[x > 0].exp()
    return y[y > 1.5] * 3, y.sum()


def distinct(x):
    return torch.unique(x.round()).float() * 2


def masked_select(x):
    return torch.masked_select(x.t() + 1, x.t() > 0).relu()


def rows(x):
    i = torch.nonzero(x.sum(1) > 0).squeeze(1)
    return x[i].softmax(-1), x.index_select(0, i).t()


def number(x):
    n = (x > 0).sum().item()
    torch._check(n >= 0)
    torch._check(n < 1000)
    return torch.ones(n) * 3 + n, x * n


def scale(x):
    n = x.sum().item()
    return torch.full((3,), n) * 2, x * n


FUNCTIONS = (scale, masked, places, twice, distinct, masked_select, rows, number)


def same(got, want, strides=True):
    for g, w in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want), strict=True):
        torch.testing.assert_close(g, w)
        assert not strides or g.stride() == w.stride()


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_values(fn, dynamic):
    compiled = torch.compile(fn, backend=poot, options={"strict": True}, dynamic=dynamic, fullgraph=True)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for shift in (0.0, 3.0, -3.0, 0.5):  # some, nearly all, nearly none
            x = torch.randn(12, 7, generator=generator) + shift
            same(compiled(x), fn(x), strides=fn is not places)  # real nonzero yields other strides than traced
        none = torch.full((12, 7), -1.0)
        if fn is not distinct:
            same(compiled(none), fn(none), strides=fn is not places)
    assert counters["stats"]["unique_graphs"] == 1
    assert not [k for k in counters["poot"] if "fallback" in k]


@pytest.mark.parametrize("fn", (masked, twice, rows))
def test_gradients(fn):
    compiled = torch.compile(fn, backend=poot)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        x = torch.randn(12, 7, generator=generator)
        grads = []
        for f in (fn, compiled):
            leaf = x.clone().requires_grad_()
            sum(r.pow(2).sum() for r in torch.utils._pytree.tree_leaves(f(leaf))).backward()
            grads.append(leaf.grad)
        torch.testing.assert_close(grads[1], grads[0])


def test_the_report_tells_live_operators():
    report = poot_torch.explain(masked, strict=True)(torch.randn(20))
    assert [g.kind for g in report.graphs] == ["inference", "live", "inference"]
    assert report.graphs[1].classes()["library"] == 1
    assert report.totals()["classes"]["fallback"] == 0
    assert "aten.index.Tensor" in str(report)


def test_a_failed_check_is_eagers_error():
    def fn(x):
        n = x.sum().item()
        torch._check(n < 10)
        torch._check(n >= 0)
        return torch.zeros(n)

    compiled = torch.compile(fn, backend=poot)
    assert compiled(torch.tensor([2, 3])).shape == (5,)
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([20, 3]))
    assert compiled(torch.tensor([4])).shape == (4,)


def test_an_argument_is_still_updated():
    def fn(x, total):
        y = x[x > 0]
        total.add_(y.sum())
        return y * 2

    compiled = torch.compile(fn, backend=poot, options={"strict": True})
    with torch.no_grad():
        for x in (torch.randn(9), torch.randn(9)):
            totals = torch.zeros(()), torch.zeros(())
            same(compiled(x, totals[0]), fn(x, totals[1]))
            torch.testing.assert_close(*totals)
