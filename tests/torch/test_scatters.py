"""Writes through indices that name a place several times: each in order, or added in the order of the indices."""

import pytest
import torch
from inputs import random
from three_way import check

pytestmark = pytest.mark.usefixtures("inference")


def places(n, *shape, seed=1):
    return torch.randint(0, n, shape, generator=torch.Generator().manual_seed(seed))


def eighths(x):
    """Numbers whose sums in f32 are exact: eager's threads add them in any order."""
    return (x * 8).round() / 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("rows", [3, 700])
def test_rows_named_several_times(rows, dtype):
    x, i = eighths(random(rows, 40) * 8).to(dtype), places(rows, 1000)
    src = eighths(random(1000, 40, seed=2) * 2).to(dtype)

    def fn(x, i, src):
        return x.index_add(0, i, src), x.index_put((i,), src, accumulate=True), x.t().index_add(1, i, src.t())

    check(fn, x, i, src, peer=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_elements_along_the_only_axis(dtype):
    x, i, src = (random(500) * 8).to(dtype), places(500, 3000), (random(3000, seed=2) * 2).to(dtype)

    def fn(x, i, src):
        added = x.scatter_add(0, i, src), x.index_add(0, i, src), x.put(i, src, accumulate=True)
        return *added, *(
            x.scatter_reduce(0, i, src, r, include_self=s) for r in ("amax", "mean") for s in (True, False)
        )

    check(fn, x, i, src, peer=False)
    check(fn, x, i, src, peer=False, dynamic=True)


def test_the_last_of_equal_places_stays_where_all_write_the_same():
    x, i = random(9000), places(9000, 20000)

    def fn(x, i):
        src = (i * 0.5).to(x.dtype)
        return x.index_put((i,), src), x.scatter(0, i, src)

    check(fn, x, i)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_elements_of_rows(reduce):
    x, i, src = random(30, 70), places(30, 500, 70), random(500, 70, seed=2) * 0.1 + 1

    def fn(x, i, src):
        along = x.scatter_reduce(0, i, src, reduce)
        return along, x.t().scatter_reduce(1, i.t(), src.t(), reduce, include_self=False)

    check(fn, x, i, src, peer=False)


@pytest.mark.parametrize("padding", [-1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_of_an_embedding(padding, dtype):
    def fn(grad, i):
        return torch.ops.aten.embedding_dense_backward(grad, i, 50, padding, False)

    check(fn, random(4, 600, 24, dtype=dtype), places(50, 4, 600), peer=False)


def test_bins():
    i, w = places(100, 5000), random(5000)

    def fn(i, w):
        counts = torch.zeros(100, dtype=torch.int64, device=i.device).scatter_add(0, i, torch.ones_like(i))
        return counts, torch.zeros(100, dtype=w.dtype, device=i.device).index_add(0, i, w) / counts.clamp(min=1)

    check(fn, i, w, peer=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32])
def test_many_slots_of_many_rows(dtype):
    x, i = (random(3000, 24) * 8).to(dtype), places(3000, 12000)
    src = (random(12000, 24, seed=2) * 2).to(dtype)

    def fn(x, i, src):
        column = i.unsqueeze(1).expand(-1, 24)
        rows = x.index_add(0, i, src), x.index_put((i,), src, accumulate=True)
        return *rows, x.scatter_add(0, column, src), x.scatter_reduce(0, column, src, "amax")

    check(fn, x, i, src, peer=False)


def test_equal_bits_where_they_are_asked_for():
    x, i, src = random(3000, 24), places(3000, 12000), random(12000, 24, seed=2)
    fn = torch.compile(lambda x, i, src: x.index_add(0, i, src), backend="poot", options={"strict": True})
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        torch._dynamo.reset()
        first = fn(x, i, src)
        for _ in range(5):
            assert torch.equal(fn(x, i, src), first)
    finally:
        torch.use_deterministic_algorithms(before)
    torch.testing.assert_close(fn(x, i, src), first)
