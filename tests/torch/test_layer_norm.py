"""Layer norm in graphs with gradients has the bits that eager's has at one thread: f32 on a CPU."""

import pytest
import torch
import torch.nn.functional as F

WIDTHS = [list(range(first, first + 10)) for first in range(1, 71, 10)] + [
    [255, 256, 257, 768],
    [1000, 1025, 2300, 4096],
]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    yield
    torch.set_num_threads(threads)


def compare(f, *args):
    """Results and gradients of f over tensors, compiled and eager, to the bit."""
    found = []
    for g in (f, torch.compile(f, backend="poot", options={"strict": True}, dynamic=False)):
        given = [a.clone().requires_grad_() for a in args]
        results = g(*given)
        torch.manual_seed(1)
        torch.autograd.backward(results, [torch.randn_like(r) for r in results])
        found.append([*results, *(a.grad for a in given)])
    for want, got in zip(*found, strict=True):
        assert torch.equal(got, want), (want.shape, int((got != want).sum()))


@pytest.mark.parametrize("widths", WIDTHS, ids=lambda w: f"{w[0]}-{w[-1]}")
def test_affine(widths):
    torch.manual_seed(0)
    n = len(widths)
    args = [torch.randn(3, 5, w) * 3 + 1 for w in widths] + [torch.randn(w) for w in widths * 2]

    def f(*args):
        return [F.layer_norm(args[i], args[n + i].shape, args[n + i], args[2 * n + i]) for i in range(n)]

    compare(f, *args)


@pytest.mark.parametrize("widths", WIDTHS, ids=lambda w: f"{w[0]}-{w[-1]}")
def test_without_weights(widths):
    torch.manual_seed(0)
    compare(lambda *xs: [F.layer_norm(x, x.shape[1:]) for x in xs], *(torch.randn(7, w) * 3 + 1 for w in widths))


def test_long_rows():
    torch.manual_seed(0)
    compare(lambda *xs: [F.layer_norm(x, x.shape[1:]) for x in xs], *(torch.randn(3, w) for w in (16384, 70001)))


@pytest.mark.parametrize("weight", [True, False])
def test_one_of_weight_and_bias(weight):
    torch.manual_seed(0)

    def f(x, v):
        return [F.layer_norm(x, v.shape, v if weight else None, None if weight else v)]

    compare(f, torch.randn(9, 77), torch.randn(77))


def test_several_axes_and_what_is_around():
    torch.manual_seed(0)

    def f(x, residual, w, b):
        h = x + residual
        y = F.layer_norm(h, w.shape, w, b)
        return [h, y * 2]

    compare(f, torch.randn(4, 6, 10, 12), torch.randn(4, 6, 10, 12), torch.randn(10, 12), torch.randn(10, 12))


def test_of_a_transposed_tensor():
    torch.manual_seed(0)
    compare(lambda x: [F.layer_norm(x.transpose(1, 2), (40,)).relu()], torch.randn(3, 40, 50))


def test_of_what_is_dear():
    torch.manual_seed(0)
    compare(lambda x, w: [F.layer_norm(torch.sigmoid(x) * x, w.shape, w)], torch.randn(6, 300), torch.randn(300))


def test_tanh():
    torch.manual_seed(0)
    compare(lambda x: [torch.tanh(x * 2), torch.tanh(x.t())], torch.randn(70, 1000) * 3)


def test_not_finite():
    x = torch.randn(4, 100)
    x[0, 3], x[1, 99], x[2, 50] = torch.inf, torch.nan, -torch.inf
    x.requires_grad_()
    want = F.layer_norm(x, (100,))
    got = torch.compile(lambda x: F.layer_norm(x, (100,)), backend="poot", options={"strict": True})(x)
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
