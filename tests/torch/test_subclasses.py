"""Tensor subclasses that wrap tensors: AOTAutograd takes them apart, and the graph holds what they wrap."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from poot_torch.backend import poot

STRICT = {"strict": True}


def update(x, w):
    return x.mul_(2) + 1


FUNCTIONS = {
    "pointwise": lambda x, w: (x.sin() + 1) * 2,
    "product": lambda x, w: (x @ w).relu(),
    "views": lambda x, w: (x.t() * 2).t() + x,
    "two results": lambda x, w: ((x @ w).exp(), x.sum(0)),
}


def plain(t):
    return (t.a, t.b) if isinstance(t, TwoTensor) else t


def compare(found):
    for want, got in zip(*found, strict=True):
        assert type(want) is type(got)
        if want is not None:
            torch.testing.assert_close(plain(got), plain(want))
            assert got.stride() == want.stride()


def run(fn, gradients):
    """Results, the subclass afterwards and gradients: eager's and poot's."""
    torch.manual_seed(0)
    parts = [torch.randn(3, 4) for _ in range(2)]
    torch._dynamo.reset()
    found = []
    for f in (fn, torch.compile(fn, backend=poot, options=STRICT)):
        x = TwoTensor(*(p.clone() for p in parts)).requires_grad_(gradients)
        w = torch.ones(4, 2, requires_grad=gradients)
        results = f(x, w)
        results = results if isinstance(results, tuple) else (results,)
        if gradients:
            sum(r.sum() for r in results).backward()
        found.append([x, *results, x.grad, w.grad])
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("gradients", (False, True))
def test_values_and_gradients(name, gradients):
    compare(run(FUNCTIONS[name], gradients))


def test_a_subclass_written_in_place():
    compare(run(update, False))
