"""Products of a few rows with a matrix (decoding): values, plans, what is fused, and the report."""

import pytest
import torch
from inputs import random
from products import FLOATS, classes, gated_mlp, plan
from three_way import check

import poot_torch

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("inference")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8])
def test_few_rows(dtype, rows):
    def fn(xs, ws):
        return [F.linear(x, w) for x, w in zip(xs, ws, strict=True)]

    sizes = ((1, 9), (33, 70), (256, 130), (1000, 64))
    xs = [random(rows, inner, dtype=dtype) for inner, _ in sizes]
    ws = [random(outer, inner, dtype=dtype, seed=1) for inner, outer in sizes]
    check(fn, xs, ws, peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_strides(dtype):
    def fn(w, rows, columns, few):
        return F.linear(rows, w), F.linear(columns, w), (w @ few.t()).t(), few[:1] @ w.t(), w @ few[0]

    weight = random(70, 99, dtype=dtype)[:, 3:60]
    inputs = random(2, 2, 57, dtype=dtype)[:, 1], random(57, 3, dtype=dtype).t(), random(3, 57, dtype=dtype)
    check(fn, weight, *inputs, peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_empty(dtype):
    check(F.linear, random(1, 0, dtype=dtype), random(5, 0, dtype=dtype))
    check(F.linear, random(0, 4, dtype=dtype), random(5, 4, dtype=dtype))


def test_special_values():
    x, w = random(1, 40), random(16, 40)
    x[0, 7], w[3, 7], w[5, 9] = float("inf"), 0.0, float("nan")
    check(F.linear, x, w, judge=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_follows_is_fused_and_rounds_as_eager(dtype):
    def fn(x, w, b, r):
        y = F.linear(x, w, b)
        return F.relu(y) + r, F.gelu(y), F.silu(y)

    args = [
        random(2, 64, dtype=dtype),
        random(96, 64, dtype=dtype),
        random(96, dtype=dtype),
        random(2, 96, dtype=dtype),
    ]
    check(fn, *args)
    graph = plan(fn, *args)
    assert graph["dispatches_after"] == 1
    assert classes(graph) == ["generated"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_gated_mlp(dtype):
    args = [
        random(1, 1, 64, dtype=dtype),
        random(96, 64, dtype=dtype, seed=1),
        random(96, 64, dtype=dtype, seed=2),
        random(64, 96, dtype=dtype, seed=3),
    ]
    check(gated_mlp, *args)
    graph = plan(gated_mlp, *args)
    assert graph["dispatches_after"] == 2
    assert graph["classes"]["library"] == 0


def test_report_says_which_plan_and_why():
    def fn(x, y, w, v):
        return w.view(4, 12, 32) @ x.view(4, 32, 16), F.linear(y, w), y @ v

    graph = plan(fn, random(64, 32), random(1, 32), random(48, 32), random(32, 48))
    reasons = [(c["class"], c["reason"]) for c in graph["contractions"]]
    assert any(c == "generated" and "memory speed" in reason for c, reason in reasons)
    assert any(c == "library" and reason for c, reason in reasons)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64, torch.float64, *FLOATS])
@pytest.mark.parametrize("size", [0, 1, 37, 70000])
def test_products_of_two_vectors(dtype, size):
    a, b = ((random(size, seed=s) * 50).to(dtype) for s in (0, 1))
    a = a / 50 if dtype.is_floating_point else a

    def fn(a, b):
        return torch.dot(a, b), torch.vdot(a, b), torch.inner(a[::2], b[::2])

    check(fn, a, b, judge=dtype is not torch.float64, peer=False)
    assert poot_torch.last_report().totals()["classes"]["library"] == 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (7, 33), (300, 200)])
def test_products_of_integers_with_a_vector(dtype, shape):
    m, n = shape
    a, x, c = ((random(*s) * 50).to(dtype) for s in (shape, (n,), (m,)))

    def fn(a, x, c):
        return a @ x, a.t() @ c, torch.addmv(c, a, x), torch.addmv(c, a, x, alpha=3, beta=2), c.addmv(a, x, beta=0)

    check(fn, a, x, c, peer=False)
    assert poot_torch.last_report().totals()["classes"]["library"] == 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.complex64])
def test_products_of_thin_matrices(dtype):
    scale = 1 if dtype.is_complex else 9
    row, column, matrix = ((random(*s) * scale).to(dtype) for s in ((1, 40), (40, 1), (30, 40)))

    def fn(row, column, matrix):
        c, few = matrix[:, :1], matrix[:6, :8]
        added = torch.addmm(c, matrix, column, beta=2, alpha=3), torch.addmm(few, few, few.t() @ few, beta=0)
        return row @ column, torch.tensordot(row, column, 1), column.t() @ row.t(), few @ few.t(), *added

    check(fn, row, column, matrix, judge=False, peer=False)
    assert poot_torch.last_report().totals()["classes"]["library"] == 0


def test_factors_that_are_known_when_the_graph_runs():
    def fn(c, a, x, beta, alpha):
        return torch.addmv(c, a, x, beta=beta, alpha=alpha), torch.addmm(c, a, a.t(), beta=beta, alpha=alpha)

    check(fn, random(5), random(5, 10), random(10), 3, 2, dynamic=True, peer=False)
    assert poot_torch.last_report().totals()["classes"]["fallback"] == 0


def test_dynamic_sizes():
    check(F.linear, random(1, 48), random(40, 48), dynamic=True)


def test_training_through_few_rows():
    def fn(x, w):
        return torch.tanh(F.linear(x, w)).sum()

    with torch.enable_grad():
        check(fn, random(2, 48).requires_grad_(), random(40, 48).requires_grad_())
