"""Products of many rows in tiles of registers: values, what precedes and follows them, plans and their reasons."""

import functools

import pytest
import torch
from inputs import random
from products import FLOATS, classes, equal_on_any_threads, followed, gated_mlp, plan
from three_way import check, gradients

F = torch.nn.functional
UNIT = torch.cpu._is_amx_tile_supported()  # where bf16 and f16 are the library's
pytestmark = pytest.mark.usefixtures("inference")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [17, 24, 100, 257, 513])
def test_sizes(dtype, rows):
    def fn(xs, ws):
        return [followed(x, w) for x, w in zip(xs, ws, strict=True)]

    sizes = ((1, 64), (33, 70), (97, 129), (300, 32), (256, 96))
    xs = [random(rows, inner, dtype=dtype) for inner, _ in sizes]
    ws = [random(outer, inner, dtype=dtype, seed=1) for inner, outer in sizes]
    check(fn, xs, ws, peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("turned_x", [False, True])
@pytest.mark.parametrize("turned_w", [False, True])
def test_orders_and_strides(dtype, turned_x, turned_w):
    x = random(90, 75, dtype=dtype).t() if turned_x else random(75, 90, dtype=dtype)
    w = random(200, 90, dtype=dtype, seed=1).t() if turned_w else random(90, 200, dtype=dtype, seed=1)

    def fn(x, w):
        return x @ w, -(x[5:, 3:80] @ w[3:80, 7:]), torch.sin(x[::2] @ w[:, 1::2])

    check(fn, x, w, peer=False)


@pytest.mark.parametrize("rows", [2, 17, 100])
def test_doubles(rows):
    args = random(rows, 70, dtype=torch.float64), random(90, 70, dtype=torch.float64, seed=1)
    got = torch.compile(followed, backend="poot", options={"strict": True})(*args)
    torch.testing.assert_close(got, followed(*args), rtol=1e-13, atol=1e-13)
    graph = plan(followed, *args)
    assert classes(graph) == ["generated"]
    assert graph["dispatches_after"] == 1


def test_batches_of_rows():
    def fn(x, y, w):
        return F.linear(x, w).relu(), F.linear(y, w).transpose(1, 2).contiguous()

    check(fn, random(3, 21, 64), random(21, 3, 64).transpose(0, 1), random(128, 64, seed=1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_follows_is_fused_and_rounds_as_eager(dtype):
    def fn(x, w, b, r):
        y = F.linear(x, w, b)
        return F.gelu(y) + r, F.relu(y)

    args = random(2, 50, 64), random(192, 64, seed=1), random(192, seed=2), random(2, 50, 192, seed=3)
    args = [a.to(dtype) for a in args]
    check(fn, *args)
    if dtype is torch.float32 or not UNIT:
        graph = plan(fn, *args)
        assert classes(graph) == ["generated"]
        assert graph["dispatches_after"] == 1


def test_what_precedes_is_fused_where_it_is_computed_once():
    def fn(x, w, scale):
        return x @ (w.float() * scale)

    args = random(100, 64), torch.randint(-127, 128, (64, 128), dtype=torch.int8), random(128, seed=1).abs()
    check(fn, *args)
    graph = plan(fn, *args)
    assert classes(graph) == ["generated"]
    assert graph["dispatches_after"] == 1


def test_gated_mlp():
    args = random(48, 96), random(160, 96, seed=1), random(160, 96, seed=2), random(96, 160, seed=3)
    for dtype in FLOATS:
        check(gated_mlp, *[a.to(dtype) for a in args])


@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_and_nans_stay_in_their_rows(dtype):
    x, w = random(48, 65, dtype=dtype), random(70, 65, dtype=dtype, seed=1)
    x[3, 5], x[40, 64], w[69, 0], w[1, 64] = float("inf"), float("nan"), float("-inf"), float("inf")
    check(followed, x, w, judge=False)
    check(lambda x, w: x.t() @ w.t(), x.t().contiguous(), w, judge=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_empty(dtype):
    check(followed, random(40, 0, dtype=dtype), random(64, 0, dtype=dtype))
    check(followed, random(0, 40, dtype=dtype), random(64, 40, dtype=dtype))
    check(followed, random(40, 40, dtype=dtype), random(0, 40, dtype=dtype))


def test_residual_updated_in_place():
    def fn(x, w, r):
        r.add_(F.linear(x, w))
        return r * 2

    check(fn, random(40, 64), random(64, 64, seed=1), random(40, 64, seed=2))
    check(lambda x, w: x.add_(F.linear(x, w)), random(64, 64), random(64, 64, seed=1))


def test_dynamic_sizes():
    torch._dynamo.reset()
    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU())
    fn = torch.compile(module, backend="poot", dynamic=True, options={"strict": True})
    for rows in (64, 33, 300, 2, 1):
        x = random(rows, 64)
        torch.testing.assert_close(fn(x), module(x))
    check(torch.matmul, random(40, 48), random(48, 90), dynamic=True)


def test_threads_do_not_change_a_bit():
    equal_on_any_threads(followed, random(300, 200), random(300, 200, seed=1))


def summed_in_parts(x, w, start, part):
    """x @ w in f32, one product after the other in each part, each part's sum added to `start`. Products are exact."""
    total = start
    for first in range(0, x.shape[1], part):
        terms = range(first, min(first + part, x.shape[1]))
        total = total + functools.reduce(torch.add, (x[:, k, None] * w[k] for k in terms))
    return total


@pytest.mark.parametrize(
    "depth, part", [(40, 40), (192, 192), (193, 96), (208, 104), (383, 191), (384, 192), (3000, 192)]
)
def test_sums_are_taken_in_the_parts_that_the_library_takes(depth, part):
    short = torch.bfloat16  # whose products f32 holds
    x, w = random(33, depth, dtype=short).float(), random(depth, 70, dtype=short, seed=1).float()
    bias = random(70, seed=2)
    torch._dynamo.reset()
    fn = torch.compile(lambda x, w, b: (x @ w, torch.addmm(b, x, w), x @ w + b), backend="poot", dynamic=False)
    product = summed_in_parts(x, w, torch.zeros(33, 70), part)
    assert torch.equal(fn(x, w, bias)[0], product)
    assert torch.equal(fn(x, w, bias)[1], summed_in_parts(x, w, bias.expand(33, 70), part))
    assert torch.equal(fn(x, w, bias)[2], product + bias)
    assert torch.equal(fn(x.t().contiguous().t(), w.t().contiguous().t(), bias)[0], product)


def test_long_sums_are_as_exact_as_eagers():
    check(F.linear, random(64, 8000), random(64, 8000, seed=1), peer=False)


def test_training():
    def fn(x, w, b):
        return torch.tanh(F.linear(x, w, b)).double().sum().float()  # one number: its sum is not what is judged

    with torch.enable_grad():
        args = [random(64, 96).requires_grad_(), random(80, 96, seed=1).requires_grad_()]
        gradients(fn, *args, random(80, seed=2).requires_grad_())


def test_report_says_which_plan_and_why():
    graph = plan(lambda x, w, v: (x @ w, v @ v), random(64, 64), random(64, 96), random(3, 64, 64))
    reasons = {c["class"]: c["reason"] for c in graph["contractions"]}
    assert "estimated at" in reasons["generated"]
    assert "a batch of matrices" in reasons["library"]
