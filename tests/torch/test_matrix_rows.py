"""Products of a few rows with a matrix stored [K, N], read row by row: values, plans, what is fused."""

import pytest
import torch
from inputs import random
from products import FLOATS, classes, equal_on_any_threads, plan
from three_way import check

pytestmark = pytest.mark.usefixtures("inference")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9, 16])
def test_few_rows(dtype, rows):
    def fn(xs, ws):
        return [x @ w for x, w in zip(xs, ws, strict=True)]

    sizes = ((1, 64), (2, 65), (33, 70), (256, 130), (100, 1000))
    xs = [random(rows, inner, dtype=dtype) for inner, _ in sizes]
    ws = [random(inner, outer, dtype=dtype, seed=1) for inner, outer in sizes]
    check(fn, xs, ws, peer=False)
    assert classes(plan(fn, xs, ws)) == ["generated"] * len(sizes)


def test_the_library_keeps_batches_of_matrices():
    assert classes(plan(torch.matmul, random(3, 2, 64), random(3, 64, 96))) == ["library"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_strides(dtype):
    def fn(w, rows, columns, batch):
        return rows @ w, columns @ w, rows[0] @ w, batch @ w, rows.expand(4, 2, 57) @ w

    weight = random(60, 200, dtype=dtype)[2:59, 5:133]
    inputs = random(2, 2, 57, dtype=dtype)[:, 1], random(57, 3, dtype=dtype).t()
    check(fn, weight, *inputs, random(2, 3, 114, dtype=dtype)[..., ::2], peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_empty(dtype):
    check(torch.matmul, random(1, 0, dtype=dtype), random(0, 70, dtype=dtype))
    check(torch.matmul, random(0, 4, dtype=dtype), random(4, 70, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_and_nans_stay_in_their_columns(dtype):
    x, w = random(2, 41, dtype=dtype), random(41, 100, dtype=dtype)
    x[0, 40], w[40, 3], w[7, 5], w[8, 99] = float("inf"), 0.0, float("nan"), float("-inf")
    check(torch.matmul, x, w, judge=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_follows_is_fused_and_rounds_as_eager(dtype):
    def fn(x, w, b, r):
        y = torch.addmm(b, x, w)
        return torch.relu(y) + r, torch.nn.functional.silu(y)

    args = random(3, 64), random(64, 96, seed=1), random(96, seed=2), random(3, 96, seed=3)
    args = [a.to(dtype) for a in args]
    check(fn, *args)
    graph = plan(fn, *args)
    assert classes(graph) == ["generated"]
    assert graph["dispatches_after"] == 1


def test_gated_mlp():
    def fn(x, gate, up, down):
        return x + (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down

    args = [random(1, 64), random(64, 96, seed=1), random(64, 96, seed=2), random(96, 64, seed=3)]
    for dtype in FLOATS:
        check(fn, *[a.to(dtype) for a in args])
    graph = plan(fn, *args)
    assert classes(graph) == ["generated"] * 3
    assert graph["dispatches_after"] == 2


def test_residual_updated_in_place():
    def fn(x, w, r):
        r.add_(x @ w)
        return r * 2

    check(fn, random(2, 64), random(64, 96, seed=1), random(2, 96, seed=2))


def test_dynamic_sizes():
    check(torch.matmul, random(2, 48), random(48, 140), dynamic=True)


def test_threads_do_not_change_a_bit():
    equal_on_any_threads(torch.matmul, random(4, 300), random(300, 700, seed=1))


def test_training():
    def fn(x, w):
        return torch.tanh(x @ w).sum()

    with torch.enable_grad():
        check(fn, random(2, 48).requires_grad_(), random(48, 80).requires_grad_())
