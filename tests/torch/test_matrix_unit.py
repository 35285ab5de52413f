"""Products of many rows in bf16: tiles of the matrix unit where the processor has one, with what follows fused.

On other processors the same graphs run through the library: values are checked there too, plans are not.
"""

import functools

import inputs
import products
import pytest
import torch
from products import equal_on_any_threads, followed, gated_mlp
from three_way import check, gradients

import poot_torch

F = torch.nn.functional
OPTIONS = {"strict": True, "matrix_unit": True}
TILES = torch.cpu._is_amx_tile_supported()
pytestmark = pytest.mark.usefixtures("inference")
random = functools.partial(inputs.random, dtype=torch.bfloat16)
plan = functools.partial(products.plan, matrix_unit=True)


def generated(graph):
    """Which products the matrix unit computes."""
    return [c["class"] == "generated" and "matrix unit" in c["reason"] for c in graph["contractions"]]


@pytest.mark.parametrize("rows", [32, 33, 100, 257, 513])
@pytest.mark.parametrize("inner, outer", [(512, 64), (544, 70), (1056, 65)])
def test_sizes(rows, inner, outer):
    x, w = random(rows, inner), random(outer, inner, seed=1)
    check(followed, x, w, peer=False, matrix_unit=True)
    assert generated(plan(followed, x, w)) == [TILES]


@pytest.mark.parametrize("outer", [64, 70, 192])
def test_matrix_in_rows(outer):
    def fn(x, w):
        return F.relu(x @ w)

    x, w = random(100, 512), random(512, outer, seed=1)
    check(fn, x, w, peer=False, matrix_unit=True)
    assert generated(plan(fn, x, w)) == [TILES]


def test_they_are_asked_for():
    x, w = random(64, 512), random(64, 512, seed=1)
    graph = poot_torch.explain(followed, strict=True)(x, w).to_json()["graphs"][0]
    assert generated(graph) == [False]


def test_the_library_computes_products_alone_and_shallow_ones():
    x, w = random(100, 512), random(64, 512, seed=1)
    assert generated(plan(F.linear, x, w)) == [False]
    assert generated(plan(followed, x[:, :256], w[:, :256])) == [False]


def test_batches_of_rows_and_strides():
    def fn(x, y, z, w):
        return -F.linear(x, w), -F.linear(y, w), -(z @ w.t())

    w = random(140, 600, seed=1)[3:, 5:549]
    x, y, z = random(2, 40, 544), random(40, 2, 544).transpose(0, 1), random(80, 560)[:, :544]
    check(fn, x, y, z, w, peer=False, matrix_unit=True)


def test_what_follows_is_fused_and_rounds_as_eager():
    def fn(x, w, b, r):
        y = F.linear(x, w, b)
        return F.gelu(y) + r, F.relu(y)

    args = random(2, 50, 512), random(192, 512, seed=1), random(192, seed=2), random(2, 50, 192, seed=3)
    check(fn, *args, matrix_unit=True)
    if TILES:
        assert plan(fn, *args)["dispatches_after"] == 1


def test_gated_mlp():
    args = random(48, 512), random(544, 512, seed=1), random(544, 512, seed=2), random(512, 544, seed=3)
    check(gated_mlp, *args, matrix_unit=True)
    if TILES:
        assert plan(gated_mlp, *args)["dispatches_after"] == 2


def test_heads_after_a_product():
    def fn(x, w, b):
        return (F.linear(x, w, b) * 0.125).view(2, 40, 4, 32).transpose(1, 2).contiguous()

    check(fn, random(2, 40, 512), random(128, 512, seed=1), random(128, seed=2), matrix_unit=True)


def test_infinities_and_nans_stay_in_their_rows():
    x, w = random(48, 512), random(70, 512, seed=1)
    x[3, 5], x[40, 511], w[69, 0] = float("inf"), float("nan"), float("-inf")
    check(followed, x, w, judge=False, matrix_unit=True)


def test_dynamic_rows():
    torch._dynamo.reset()
    module = torch.nn.Sequential(torch.nn.Linear(512, 128), torch.nn.ReLU()).bfloat16()
    fn = torch.compile(module, backend="poot", dynamic=True, options=OPTIONS)
    for rows in (64, 33, 300, 2):
        x = random(rows, 512)
        torch.testing.assert_close(fn(x), module(x), rtol=0.02, atol=0.05)
    assert generated(poot_torch.last_report().to_json()["graphs"][0]) == [TILES]


def test_threads_do_not_change_a_bit():
    equal_on_any_threads(followed, random(300, 512), random(300, 512, seed=1), **OPTIONS)


def test_training():
    def fn(x, w):
        return torch.tanh(F.linear(x, w)).float().sum()

    with torch.enable_grad():
        gradients(fn, random(64, 512).requires_grad_(), random(80, 512, seed=1).requires_grad_(), matrix_unit=True)
