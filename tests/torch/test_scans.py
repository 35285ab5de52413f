"""Running sums, products, extremes and log-sum-exps: on a CPU eager's bits, since the order and accumulator are
eager's; on a GPU an error no larger than eager's, whose threads add up in another order."""

import math

import pytest
import torch
from inputs import random
from three_way import check

pytestmark = pytest.mark.usefixtures("inference")
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def equal(fn, *args, **options):
    if args[0].device.type != "cpu":
        check(fn, *args, peer=False, judge=args[0].dtype is not torch.float64, **options)
        return
    torch._dynamo.reset()
    want = fn(*args)
    got = torch.compile(fn, backend="poot", options={"strict": True}, **options)(*args)
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape, g.stride()) == (w.dtype, w.shape, w.stride())
        assert torch.equal(g.nan_to_num(nan=7.5), w.nan_to_num(nan=7.5)) if g.is_floating_point() else torch.equal(g, w)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_and_products_have_the_bits_of_eager(dtype):
    def fn(x):
        sums = [x.cumsum(d) for d in range(3)]
        products = [(x * 0.1 + 1).cumprod(d) for d in range(3)]
        return (*sums, *products, x.cumsum(-1, dtype=torch.float32), x.flatten().cumsum(0))

    equal(fn, random(5, 37, 19, dtype=dtype))
    equal(fn, random(19, 37, 5, dtype=dtype).permute(2, 1, 0))
    equal(fn, random(5, 37, 19, dtype=dtype), dynamic=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("n", [1, 3, 32, 63, 257, 1025, 8192, 20003])
def test_rows_of_every_length(n, dtype):
    def fn(x):
        return x.cumsum(1), *x.cummax(1), x.cumsum(0), (x > 1).cumsum(1)

    equal(fn, (random(5, n) * 3).to(dtype))
    equal(fn, (random(70, n) * 3).to(dtype)[:, : n // 2 + 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_few_long_rows(dtype):
    def fn(x):
        return x.flatten().cumsum(0), *x.flatten().cummin(0), *x.cummax(0), x.cumsum(0), x.flip(0).cumsum(0)

    equal(fn, (random(9001, 13) * 2).to(dtype))
    equal(fn, (random(100003, 1) * 2).to(dtype))
    equal(fn, (random(3001, 40) * 2).to(dtype), dynamic=True)


def test_few_columns_side_by_side():
    equal(lambda x: (x.cumsum(1), x.cumprod(1), *x.cummin(1)), random(6, 500, 3))
    equal(lambda x: (x.cumsum(1), *x.cummax(1)), random(6, 3, 500).transpose(1, 2))


@pytest.mark.parametrize("dtype", FLOATS)
def test_running_extremes(dtype):
    def fn(x):
        return *x.cummax(0), *x.cummax(1), *x.cummin(1), *x[0].cummin(0)

    x = random(40, 70, dtype=dtype).mul(2).round()
    x[3, 5] = x[9, 8] = math.nan
    x[:, 2] = -0.0
    equal(fn, x)


def test_integers_and_bools():
    def fn(a, b):
        sums = a.cumsum(0), a.cumsum(1), b.cumsum(1), (a > 2).cumsum(0), a.cumprod(1)
        return (*sums, *a.cummax(1), *b.cummin(0), *(a > 2).cummax(1), a[0, 0].cumsum(0))

    a = torch.randint(-5, 6, (17, 33), generator=torch.Generator().manual_seed(0))
    equal(fn, a, a.abs().to(torch.uint8))
    equal(fn, a.int(), a.to(torch.int8))


@pytest.mark.parametrize("dtype", FLOATS)
def test_logcumsumexp(dtype):
    x = random(20, 33, dtype=dtype) * 5
    x[1, 4] = -math.inf
    x[:, 0] = -math.inf
    x[3, 7] = math.inf
    check(lambda x: (x.logcumsumexp(0), x.logcumsumexp(1)), x, peer=False, judge=dtype is not torch.float64)


def test_empty_and_single():
    equal(lambda x: (x.cumsum(0), x.cumsum(1)), torch.randn(0, 3))
    equal(lambda x: (x.cumsum(0), x.cumsum(1), x.cumprod(0)), torch.randn(1, 1))


def test_gradient():
    grads = []
    fn = lambda x: (x.cumsum(1) * x.cumsum(0).sin()).sum()  # noqa: E731
    with torch.enable_grad():
        for run in (fn, torch.compile(fn, backend="poot")):
            torch._dynamo.reset()
            x = random(9, 11).requires_grad_()
            run(x).backward()
            grads.append(x.grad)
    torch.testing.assert_close(*grads)
