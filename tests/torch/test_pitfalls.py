"""Kinds of failure that users reported against torch.compile backends, each with the discussion's number.

Those that need several processes are in test_pitfalls_processes.py, those of speed in test_pitfalls_speed.py.
"""

import pytest
import torch
import torch.nn.functional as F
from three_way import check, copied, equal_bits
from torch import nn
from torch._dynamo.utils import counters

import poot_torch
from poot_torch.backend import poot

STRICT = {"strict": True}


def graphs():
    return sum(n for key, n in counters["poot"].items() if key.startswith("graphs:"))


def fibonacci(x, steps):
    a, b = x, x + 1
    for i in range(steps):
        a, b = b, (a + b) * 0.5 if i % 2 else a * b
    return b


def test_sharing_does_not_multiply_work():  # 148073
    def launches(steps):
        torch._dynamo.reset()
        x = torch.rand(64, requires_grad=True)
        y = torch.compile(lambda x: fibonacci(x, steps), backend=poot, options=STRICT)(x)
        (got,) = torch.autograd.grad(y.sum(), x)
        (want,) = torch.autograd.grad(fibonacci(x, steps).sum(), x)
        torch.testing.assert_close(got, want)
        return sum(g.native["dispatches_before"] for g in poot_torch.last_report().graphs)

    short, long = launches(10), launches(60)
    assert long <= 8 * short


def test_twelve_batch_sizes_compile_twice():  # TensorRT-LLM 6142
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(lambda x: F.gelu(x) @ x.t(), backend=poot, options=STRICT)
    with torch.no_grad():
        for n in range(2, 14):
            x = torch.randn(n, 8)
            torch.testing.assert_close(compiled(x), F.gelu(x) @ x.t())
    assert graphs() <= 2


def test_the_recompile_limit_is_reported():  # TensorRT-LLM 6142
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=2, automatic_dynamic_shapes=False), torch.no_grad():
        compiled = torch.compile(lambda x: x.sin() + 1, backend=poot)
        for n in range(2, 8):
            compiled(torch.randn(n))
    assert poot_torch.last_report().eager_frames, "frames run in eager and nobody says so"


def test_attention_under_a_fresh_mask_makes_no_score_matrix():  # vllm 27178
    def step(q, k, v, window):
        rows = torch.arange(q.shape[2])[:, None]
        cols = torch.arange(k.shape[2])[None, :]
        mask = (cols <= rows) & (rows - cols < window)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    q, k, v = (torch.randn(2, 4, 128, 16) for _ in range(3))
    with torch.no_grad():
        for window in (16, 32):
            torch._dynamo.reset()
            got = torch.compile(step, backend=poot, options=STRICT)(q, k, v, window)
            torch.testing.assert_close(got, step(q, k, v, window))
            scores = 2 * 4 * 128 * 128 * 4
            assert poot_torch.last_report().totals()["peak_transient_bytes"] < scores


def test_memory_plateaus_over_many_lengths():  # 128424
    resource = pytest.importorskip("resource")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.softmax(x @ x.t(), -1) @ x, backend=poot, dynamic=True)
    peak = []
    with torch.no_grad():
        for _ in range(2):
            for n in range(50, 100):
                compiled(torch.randn(n, 512))
            peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peak[1] - peak[0] < 8 * 1024, "kilobytes kept for lengths seen before"


def test_a_kept_result_survives_the_next_call():  # 160281
    torch._dynamo.reset()
    f = torch.compile(lambda x: torch.tanh(x) * 2, backend=poot)
    g = torch.compile(lambda x: x.exp() + 1, backend=poot)
    with torch.no_grad():
        x, y = torch.randn(256), torch.randn(256)
        kept = f(x)
        image, first = g(kept), kept.clone()
        f(y)
        g(f(y))
    assert torch.equal(kept, first)
    torch.testing.assert_close(image, first.exp() + 1)


@torch.no_grad()
def test_a_copy_stays_before_a_mutation_of_its_source():  # 198131
    def fn(dst, src):
        dst[:] = src[:]
        src += 1
        return dst * 2

    check(fn, torch.randn(4, 3), torch.randn(4, 3))


@torch.no_grad()
def test_a_write_through_an_expanded_tensor():  # 152425
    def fn(x, n):
        wide = x.clone().expand(n)
        wide[-1] = 5.0
        return wide + 1

    check(fn, torch.tensor(2.0), 4)


@torch.no_grad()
def test_rotate_half_rounds_at_every_step():  # 182225
    def fn(x, cos, sin):
        half = x.shape[-1] // 2
        rotated = torch.cat((-x[..., half:], x[..., :half]), -1)
        return {"rope": x * cos + rotated * sin}

    torch.manual_seed(0)
    equal_bits(fn, *(torch.randn(4, 128, dtype=torch.bfloat16) for _ in range(3)))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_float_floor_division(dtype):  # 197895
    a = torch.tensor([1.0, 6.0, -1.0, 6.0, 0.0, -0.0, torch.inf, torch.nan], dtype=dtype)
    b = torch.tensor([0.1, 0.2, 0.1, -0.2, 0.1, 0.1, 0.1, 0.1], dtype=dtype)
    check(lambda a, b: (a // b, torch.remainder(a, b), torch.fmod(a, b)), a, b, judge=False)


@torch.no_grad()
def test_the_least_integer_by_minus_one_and_by_zero():  # 184406, 178013
    for dtype in (torch.int32, torch.int64):
        torch._dynamo.reset()
        least = torch.tensor([torch.iinfo(dtype).min], dtype=dtype)
        compiled = torch.compile(lambda a, b: a // b, backend=poot)
        assert compiled(least, -torch.ones_like(least)).item() == torch.iinfo(dtype).min
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(least, torch.zeros_like(least))
        assert compiled(least, torch.ones_like(least)).item() == torch.iinfo(dtype).min


@torch.no_grad()
def test_dynamic_reshape_of_a_strided_input():  # 172693, 168381
    torch._dynamo.reset()
    fn = lambda x: (x.t().reshape(-1), x.reshape(x.shape[0] * 2, -1) + 1)  # noqa: E731
    compiled = torch.compile(fn, backend=poot, dynamic=True)
    for n, m in ((4, 6), (6, 10)):
        x = torch.randn(m, 2 * n)[:, ::2].t()
        for got, want in zip(compiled(x), fn(x), strict=True):
            assert torch.equal(got, want) and got.stride() == want.stride()


@pytest.mark.parametrize("bounds", [(0, 300), (-5, 100), (-5, None), (None, 300)])
def test_clamp_outside_the_dtype(bounds):  # 195675
    x = torch.arange(256, dtype=torch.uint8)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.clamp(*bounds), backend=poot)
    try:
        want = x.clamp(*bounds)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            compiled(x)
        return
    assert torch.equal(compiled(x), want)


@torch.no_grad()
def test_signed_zeros_stay():  # 196031
    def fn(a, b):
        return {"max": torch.maximum(a, b), "min": torch.minimum(a, b), "neg": a * -1, "sign": torch.copysign(b, a)}

    a = torch.tensor([-0.0, 0.0]).repeat(64)
    equal_bits(fn, a, -a)


def test_a_collective_takes_a_strided_tensor(tmp_path):  # 167430
    dist = torch.distributed
    if not dist.is_available():
        pytest.skip("torch is built without distributed")
    from torch.distributed import _functional_collectives as collectives

    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.FileStore(str(tmp_path / "store"), 1))
    try:
        torch._dynamo.reset()

        def fn(x):
            return collectives.wait_tensor(collectives.all_reduce((x * 2).t(), "sum", dist.group.WORLD)) + 1

        x = torch.randn(3, 5)
        with torch.no_grad():
            assert torch.equal(torch.compile(fn, backend=poot)(x), x.t() * 2 + 1)
    finally:
        dist.destroy_process_group()


@torch.no_grad()
def test_interleaved_loads_and_horizontal_reductions():  # 122813, 110611
    def fn(x, cos, sin):
        even, odd = x[..., ::2], x[..., 1::2]
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
        return turned, torch.log_softmax(turned, -1), turned.log2().amax(-1)

    check(fn, torch.rand(4, 6, 32), torch.rand(4, 6, 16), torch.rand(4, 6, 16))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 2


def test_a_custom_function_is_compiled():  # fairchem 2162; its cache is in test_pitfalls_processes.py
    torch._dynamo.reset()
    model = nn.Linear(8, 8)
    x = torch.randn(4, 8, requires_grad=True)
    other = copied(x)
    fn = lambda t: Doubled.apply(model(t)).sum()  # noqa: E731
    fn(x).backward()
    torch.compile(fn, backend=poot, options=STRICT)(other).backward()
    torch.testing.assert_close(other.grad, x.grad)
