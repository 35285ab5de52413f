"""Adaptive averages whose windows overlap: strict, forward and backward."""

import pytest
import torch
from three_way import check

F = torch.nn.functional
CASES = {
    "1d": (F.adaptive_avg_pool1d, (2, 3, 7), 3),
    "2d": (F.adaptive_avg_pool2d, (2, 3, 7, 5), (3, 4)),
    "2d to more": (F.adaptive_avg_pool2d, (1, 2, 3, 4), (5, 7)),
    "2d of one image": (F.adaptive_avg_pool2d, (3, 7, 6), (4, 3)),
    "3d": (F.adaptive_avg_pool3d, (2, 2, 5, 4, 7), (3, 2, 4)),
    "3d, one axis whole": (F.adaptive_avg_pool3d, (1, 2, 6, 5, 4), (3, None, 1)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_forward(name, dtype):
    fn, shape, size = CASES[name]
    torch.manual_seed(0)
    with torch.no_grad():
        check(lambda x: fn(x * 2, size), torch.randn(shape).to(dtype))


@pytest.mark.parametrize("name", CASES)
def test_backward(name):
    fn, shape, size = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(shape, requires_grad=True)

    def loss(x):
        return (fn(x.sin(), size) ** 2).sum()

    torch._dynamo.reset()
    got = torch.compile(loss, backend="poot", options={"strict": True})
    (ours,) = torch.autograd.grad(got(x), x)
    (eager,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-6)
