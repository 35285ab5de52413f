"""Reductions, norms, products, convolution, pooling and attention."""

import math

import pytest
import torch
from inputs import random
from three_way import check

import poot_torch
from poot_torch.accuracy import error_against

F = torch.nn.functional
FLOATS = [torch.float32, torch.bfloat16]
pytestmark = pytest.mark.usefixtures("inference")


@pytest.mark.parametrize(
    "shape", [(17, 64), (300, 768), (4096, 128), (2100, 192), (1001, 10), (900, 20), (8, 128, 256), (500, 4), (300, 32)]
)
def test_sums_across_memory_are_eagers_to_the_bit(shape, device):
    if device != "cpu":
        pytest.skip("eager's kernels of a GPU add in another order")

    def fn(x):
        return x.sum(0), x.sum(tuple(range(x.ndim - 1))), x.mean(0)

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = random(*shape, dtype=dtype)
        torch._dynamo.reset()
        made = torch.compile(fn, backend="poot", dynamic=False)(x)
        assert all(torch.equal(a, b) for a, b in zip(made, fn(x), strict=True))


@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions(dtype):
    def fn(x):
        return {
            "sum": x.sum(),
            "sum_last": x.sum(-1),
            "sum_first": x.sum(0, keepdim=True),
            "sum_two": x.sum((0, 2)),
            "sum_f32": x.sum(-1, dtype=torch.float32),
            "mean": x.mean(),
            "mean_last": x.mean(-1, keepdim=True),
            "amax": x.amax(-1),
            "amin": x.amin((0, 1)),
            "max": x.max(),
            "max_dim": x.max(1),
            "min_dim": x.min(-1, keepdim=True),
            "argmax": x.argmax(-1),
            "argmin": x.argmin(),
            "var": x.var(-1),
            "std": x.std(),
            "var_mean": torch.var_mean(x, (1, 2), correction=0),
            "prod": x.prod(-1),
            "any": (x > 2).any(-1),
            "all": (x > -9).all(),
            "logsumexp": x.logsumexp(-1),
            "norm": x.norm(dim=-1),
            "norm1": torch.linalg.vector_norm(x, 1, dim=(0, 1)),
        }

    check(fn, random(4, 7, 33, dtype=dtype), peer=False)


def test_integer_reductions():
    def fn(a):
        return a.sum(), a.sum(0), a.amax(1), a.prod(1), a.cumsum(1), (a > 0).sum(1), (a > 0).cumsum(0), a.any(0)

    check(fn, torch.randint(-3, 4, (5, 9)), peer=False, judge=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_and_norms(dtype):
    def fn(x, w, b, image, cw):
        return {
            "softmax": F.softmax(x, -1),
            "softmax_middle": F.softmax(x, 1),
            "log_softmax": F.log_softmax(x, -1),
            "softmax_f32": F.softmax(x, -1, dtype=torch.float32),
            "layer_norm": F.layer_norm(x, (40,), w, b, 1e-5),
            "layer_norm_plain": F.layer_norm(x, (5, 40)),
            "rms_norm": F.rms_norm(x, (40,), w, 1e-6),
            "group_norm": F.group_norm(image, 2, cw, cw, 1e-5),
            "batch_norm": F.batch_norm(image, cw, cw.abs() + 0.5, cw, cw, False),
            "instance_norm": F.instance_norm(image),
        }

    x, w, b = random(3, 5, 40, dtype=dtype), random(40, dtype=dtype, seed=1), random(40, dtype=dtype, seed=2)
    check(fn, x, w, b, random(2, 4, 6, 5, dtype=dtype, seed=3), random(4, dtype=dtype, seed=4), peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_products(dtype):
    def fn(a, b, bias, batch):
        return {
            "mm": a @ b,
            "linear": F.linear(a, b.t(), bias),
            "addmm": torch.addmm(bias, a, b, beta=0.5, alpha=2),
            "bmm": batch @ batch.transpose(1, 2),
            "baddbmm": torch.baddbmm(batch[:, :, :1], batch, batch.transpose(1, 2)),
            "mv": a @ b[:, 0],
            "dot": a[0] @ b[:, 0],
            "fused": F.relu(a @ b + bias),
            "einsum": torch.einsum("bij,kj->bik", batch, batch[0]),
        }

    a, b = random(5, 16, dtype=dtype), random(16, 8, dtype=dtype, seed=1)
    check(fn, a, b, random(8, dtype=dtype, seed=2), random(3, 4, 16, dtype=dtype, seed=3), peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolution_and_pooling(dtype):
    def fn(x, w, b, depthwise, up):
        return {
            "conv": F.conv2d(x, w, b, stride=2, padding=1),
            "depthwise": F.conv2d(x, depthwise, padding=1, groups=4),
            "transposed": F.conv_transpose2d(x, up, stride=2),
            "conv1d": F.conv1d(x[:, :, 0], w[:, :, 0], b),
            "max_pool": F.max_pool2d(x, 3, 2, 1),
            "global": F.adaptive_avg_pool2d(x, 1),
            "avg_pool": F.avg_pool2d(x, 2),
        }

    x = random(2, 4, 8, 8, dtype=dtype)
    w, b = random(6, 4, 3, 3, dtype=dtype, seed=1), random(6, dtype=dtype, seed=2)
    check(fn, x, w, b, random(4, 1, 3, 3, dtype=dtype, seed=3), random(4, 5, 2, 2, dtype=dtype, seed=4), peer=False)


def classes(fn, *args):
    counts = poot_torch.explain(fn)(*args).graphs[0].classes()
    return [name for name, count in counts.items() if count]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "geometry", [(2, 2, 0, 1, False), (3, 2, 1, 1, False), (3, 2, 1, 1, True), (2, 3, 1, 2, False)]
)
@pytest.mark.parametrize("channels_last", [False, True])
def test_max_pooling(dtype, geometry, channels_last):
    """Maxima without their places: NaN where the window has one, and of zeros the first's sign."""
    x = random(2, 3, 19, 23, dtype=dtype)
    x[x.abs() < 0.4] *= 0.0
    x[0, 0, 5, 5], x[1, 2, 0] = float("nan"), -float("inf")
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    kernel, stride, padding, dilation, ceil = geometry

    def fn(x):
        y = F.max_pool2d(x, kernel, stride, padding, dilation, ceil)
        return y, torch.signbit(y)

    check(fn, x)
    assert ("library" in classes(fn, x)) == (channels_last and x.device.type == "cpu")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", ["plain", "causal", "bool", "float", "scale", "grouped"])
def test_attention(dtype, form):
    q, k, v = (random(2, 4, 9, 16, dtype=dtype, seed=s) for s in range(3))
    keep = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(5)) > 0.3

    def fn(q, k, v, keep):
        if form == "causal":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if form == "bool":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        if form == "float":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.where(keep, 0.0, -1.5).to(q.dtype))
        if form == "scale":
            return F.scaled_dot_product_attention(q, k, v, scale=0.5)
        if form == "grouped":
            return F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
        return F.scaled_dot_product_attention(q, k, v)

    check(fn, q, k, v, keep, peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", ["plain", "causal", "bool", "nothing", "float", "by head"])
@pytest.mark.parametrize("queries", [1, 2])
def test_attention_of_few_queries(dtype, form, queries):
    """Generated on a CPU, with keys and values shared by heads and lying as a cache leaves them."""
    q = random(2, 6, queries, 16, dtype=dtype)
    k, v = (random(2, 70, 2, 16, dtype=dtype, seed=s).transpose(1, 2) for s in (1, 2))
    keep = torch.rand(2, 1, queries, 70, generator=torch.Generator().manual_seed(5)) > 0.3
    keep[0] &= form != "nothing"

    def fn(q, k, v, keep):
        mask = None if form in ("plain", "causal") else keep
        if form in ("float", "by head"):
            mask = torch.where(keep, 0.0, -1.5).to(q.dtype)
        if form == "by head":
            mask = mask * torch.arange(6, dtype=q.dtype, device=q.device).reshape(6, 1, 1)
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=form == "causal", enable_gqa=True)

    check(fn, q, k, v, keep, peer=False)
    assert ("library" in classes(fn, q, k, v, keep)) == (q.device.type != "cpu")


def test_attention_written_by_hand():
    def fn(q, k, v):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return torch.softmax(scores, -1) @ v

    check(fn, *(random(2, 3, 7, 8, seed=s) for s in range(3)))


def test_dynamic_sizes():
    from poot_torch.backend import poot

    torch._dynamo.reset()

    def fn(x, w):
        y = F.layer_norm(x @ w, (w.shape[1],))
        z = torch.cat([y, x[:, :2]], dim=1)[:, 1:]
        return torch.softmax(z.reshape(-1), -1), y.flip(0), torch.arange(x.shape[0], device=x.device) * 2

    compiled = torch.compile(fn, backend=poot, dynamic=True, options={"strict": True})
    for rows in (3, 8, 5):
        x, w = random(rows, 6, seed=rows), random(6, 12)
        got, want = compiled(x, w), fn(x, w)
        for g, t in zip(got, want, strict=True):
            torch.testing.assert_close(g, t)
            assert g.stride() == t.stride()


def test_long_sums_across_rows_are_as_exact_as_eagers():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sum(0), backend="poot", options={"strict": True})
    for rows in (1000, 30011):  # enough columns for the RMS to say something
        x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows))
        reference = x.double().sum(0)
        assert error_against(reference, compiled(x)).rms <= 1.5 * error_against(reference, x.sum(0)).rms


@pytest.mark.parametrize("dtype", FLOATS)
def test_few_results_of_many_elements(dtype):
    def whole(x):
        return x.sum(), x.mean(), x.max(), x.min(), (x > 4).any(), (x > -9).all(), x.norm(), x.argmax(), x.var()

    def rows(x):
        return x.sum(1), x.amax(-1), x.mean(1, keepdim=True), x.t().sum(0)

    def columns(x):
        return x.sum(0), (x * 2).mean(0), x.amin(0, keepdim=True)

    check(whole, random(300, 701, dtype=dtype) + 1, peer=False)
    check(rows, random(3, 70001, dtype=dtype), peer=False)
    check(columns, random(9001, 17, dtype=dtype), peer=False)
    check(columns, random(9001, 17, dtype=dtype), dynamic=True, peer=False)
    check(whole, random(70001, dtype=dtype) + 1, dynamic=True, peer=False)


def test_sums_do_not_depend_on_the_thread_count():
    x = random(1 << 20)
    compiled = torch.compile(lambda x: (x.sum(), (x * x).mean(), x.var()), backend="poot")
    threads = torch.get_num_threads()
    try:
        results = []
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            results.append(torch.stack(compiled(x)))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@pytest.mark.parametrize("dtype", FLOATS)
def test_leading_and_middle_axes(dtype):
    def fn(x):
        return {
            "softmax": x.softmax(0),
            "log_softmax": x.log_softmax(1),
            "softmax_between": (x * 2).softmax(1) + 1,
            "logsumexp": x.logsumexp((0, 1)),
            "max": x.max(0),
            "min_keepdim": x.min(1, keepdim=True),
            "argmax": x.argmax(1),
            "var": x.var(0),
            "std_keepdim": x.std((0, 1), keepdim=True),
            "var_mean": torch.var_mean(x, 1),
        }

    check(fn, random(9, 33, 600, dtype=dtype), peer=False)
    check(fn, random(9, 33, 7, dtype=dtype), peer=False)
    check(fn, random(600, 33, 9, dtype=dtype).permute(2, 1, 0), peer=False)
    check(fn, random(9, 33, 600, dtype=dtype), dynamic=True, peer=False)


def test_ties_and_nan_across_memory():
    x = random(40, 600).round()
    x[7, 3] = x[9, 3] = math.nan
    check(lambda x: (*x.max(0), *x.min(0), x.argmax(0), x.argmin(0)), x, peer=False)


def test_batch_statistics():
    for channels in (3, 64, 600):
        x = random(4, channels, 9, 11)
        check(lambda x: torch.var_mean(x, (0, 2, 3)), x, peer=False)
        check(lambda x: torch.var_mean(x, (0, 2, 3)), x.contiguous(memory_format=torch.channels_last), peer=False)


def test_softmax_of_nothing():
    check(lambda x: (x.softmax(0), x.softmax(1), x.log_softmax(-1)), torch.randn(0, 4), peer=False)


@torch.no_grad()
def test_log_sum_exp_of_integers():
    x = torch.arange(-6, 6).reshape(3, 4)
    check(lambda x: (x.logsumexp(1), (x > 0).logsumexp((0, 1)), x.to(torch.uint8).logsumexp(0, keepdim=True)), x)


@torch.no_grad()
def test_norms_whose_order_is_known_at_run_time():
    torch._dynamo.reset()
    x = random(4, 6)
    x[1] = 0.0
    fn = lambda x, p: torch.linalg.vector_norm(x, p, dim=1) + 1  # noqa: E731
    compiled = torch.compile(fn, backend="poot", dynamic=True)
    for order in (3.0, 0.0, 1.0, 2.0, math.inf, -math.inf, 0.5):
        torch.testing.assert_close(compiled(x, order), fn(x, order), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_places_without_elements_have_any_rank():
    none = torch.zeros(2, 0, dtype=torch.int64)
    check(lambda x, i: (torch.gather(x, 0, i), torch.gather(x[0], 0, i)), random(5), none)
