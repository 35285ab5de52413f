"""Small integers and float64: arithmetic, reductions, movement and conversions, against eager."""

import pytest
import torch
from three_way import check

F = torch.nn.functional
SMALL = [torch.uint8, torch.int8, torch.int16]
pytestmark = pytest.mark.usefixtures("inference")


def integers(dtype, *shape, low=None, seed=0):
    low = (0 if dtype is torch.uint8 else -100) if low is None else low
    return torch.randint(low, 127, shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def doubles(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", SMALL)
def test_small_integers(dtype):
    def fn(x, y):
        arithmetic = x + y, x - y, x * y, -x, x // y, x % y, torch.fmod(x, y), x.abs(), x.sign(), x**2
        bits = x & y, x | y, x ^ y, ~x, x << 1, x >> 1
        order = x == y, x < y, x > y, torch.minimum(x, y), torch.maximum(x, y), torch.where(x > y, x, y)
        scalars = x + 1, x * 2, x / 2, x + 1.5, x.float() / 255, x.exp()
        return arithmetic, bits, order, scalars

    check(fn, integers(dtype, 37, 65), integers(dtype, 37, 65, low=1, seed=1), peer=False, judge=False)


@pytest.mark.parametrize("dtype", SMALL)
def test_small_integers_reduced(dtype):
    def fn(x):
        sums = x.sum(), x.sum(0), x.sum(1, dtype=torch.int32), x.prod(1)
        extremes = x.amax(1), x.amin(0), x.max(), x.max(1)[0], x.max(1)[1], x.min(0)[1], x.argmax()
        return sums, extremes, x.any(), x.all(1), (x > 3).any(0)

    check(fn, integers(dtype, 37, 65), peer=False, judge=False)


@pytest.mark.parametrize("dtype", SMALL)
def test_small_integers_moved_and_converted(dtype):
    def fn(x, y, real):
        moved = x.t().contiguous(), torch.cat([x, y]), x.flip(0), F.pad(x, (1, 2)), x[:, ::2].contiguous()
        looked_up = torch.gather(x, 1, (y % 65).long()), x[y[0].long() % 37]
        to = x.long(), x.int(), x.double(), x.bfloat16(), x.half(), x.bool(), x.to(torch.uint8), x.to(torch.int8)
        return moved, looked_up, to, real.to(dtype), real.double().to(dtype), real.bfloat16().to(dtype)

    real = doubles(37, 65).float().abs() * 30
    check(fn, integers(dtype, 37, 65), integers(dtype, 37, 65, low=0, seed=1), real, peer=False, judge=False)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_smallest_integer(dtype):
    least = torch.iinfo(dtype).min
    check(lambda x: (x // -1, x % -1, x.abs(), -x, x - 1), torch.full((5,), least, dtype=dtype), judge=False)


def test_numbers_outside_the_dtype():
    x = torch.arange(256, dtype=torch.uint8)
    check(lambda x: (x.clamp(3, 100), x + 1000, x * -1, x - 300, x < 300, x == -1), x, judge=False)
    refused = [
        lambda x: x.clamp(max=300),
        lambda x: torch.where(x > 3, x, 300),
        lambda x: x.masked_fill(x > 3, 300),
        lambda x: torch.full_like(x, 300),
        lambda x: x**300,
    ]
    for fn in refused:
        torch._dynamo.reset()
        for run in (fn, torch.compile(fn, backend="poot")):
            with pytest.raises(RuntimeError, match="without overflow"):
                run(x)


def test_f64_arithmetic():
    def fn(x, y):
        arithmetic = x + y, x - y, x * y, x / y, -x, x.abs(), x.sqrt(), x.rsqrt(), x.reciprocal(), x**2, x**3
        whole = x.floor(), x.ceil(), x.round(), x.trunc(), x % y, x // y, torch.fmod(x, y), x.sign()
        order = torch.maximum(x, y), x < y, x == y, torch.where(x > y, x, y), x.relu(), x.clamp(-1, 1)
        return arithmetic, whole, order, torch.copysign(x, y)

    check(fn, doubles(37, 65), doubles(37, 65, seed=1), peer=False, judge=False)


def test_f64_conversions_and_movement():
    def fn(x, y):
        to = x.float(), x.long(), x.bfloat16(), x.half(), x.bool(), x.int(), x.to(torch.int16)
        return to, x.t().contiguous(), torch.cat([x, y]), x.flip(0), F.pad(x, (1, 2)), x[:, ::2].contiguous()

    check(fn, doubles(37, 65) * 9, doubles(37, 65), peer=False, judge=False)


def _close(fn, *args):
    """Against eager in float64, which is its own judge: to a few roundings of the largest term."""
    torch._dynamo.reset()
    want = fn(*args)
    got = torch.compile(fn, backend="poot", options={"strict": True})(*args)
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape, g.stride()) == (w.dtype, w.shape, w.stride())
        torch.testing.assert_close(g, w, rtol=1e-14, atol=1e-14)


def test_f64_reductions():
    def fn(x):
        sums = x.sum(), x.sum(0), x.sum(1), x.mean(), x.mean(1), x.prod(1), x.norm(), x.norm(dim=1)
        moments = x.var(1), x.std(0), x.var(), *torch.var_mean(x, 1)
        return (*sums, *moments, x.amax(1), x.amin(0), *x.max(1), x.argmax())

    _close(fn, doubles(37, 65))


def test_f64_norms():
    def fn(x, w, b):
        return F.rms_norm(x, (65,), w), F.layer_norm(x, (65,), w, b)

    _close(fn, doubles(37, 65), doubles(65, seed=1), doubles(65, seed=2))


def test_f64_functions():
    def fn(x, y):
        exponentials = x.exp(), x.exp2(), x.expm1(), x.sigmoid(), x.tanh(), x.sinh(), x.cosh()
        logarithms = y.log(), y.log2(), y.log10(), y.log1p(), y.sqrt(), y.rsqrt()
        angles = x.sin(), x.cos(), x.tan(), x.atan(), torch.atan2(x, y)
        return (*exponentials, *logarithms, *angles, x.erf(), y**x, y**0.7)

    _close(fn, doubles(37, 65) * 3, doubles(37, 65, seed=1).abs() * 9)
    _close(lambda x: (x.sin(), x.cos()), 10.0 ** (doubles(999) * 30))


def test_f64_composites():
    def fn(x):
        normalised = x.softmax(-1), x.log_softmax(-1), x.softmax(0), x.logsumexp(1)
        activations = F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x), F.mish(x)
        return (*normalised, *activations, F.cross_entropy(x, torch.arange(37)))

    _close(fn, doubles(37, 65))


def test_f64_gradients():
    def loss(x, w):
        return (F.gelu(F.layer_norm(x, (65,), w)).softmax(-1) * x.tanh()).sum()

    grads = []
    with torch.enable_grad():
        for run in (loss, torch.compile(loss, backend="poot", options={"strict": True})):
            torch._dynamo.reset()
            x, w = doubles(37, 65).requires_grad_(), doubles(65, seed=1).requires_grad_()
            run(x, w).backward()
            grads.append((x.grad, w.grad))
    for got, want in zip(*grads, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
