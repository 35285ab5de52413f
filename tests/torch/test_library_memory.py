"""Library calls allocate from the run: results stay right, and what a caller or a library keeps is its own."""

import threading

import pytest
import torch
import torch.nn.functional as F

from poot_torch.backend import poot
from qualification.memory import peak_of_call

MIB = 1 << 20


def compiled(fn, dynamic=False, **options):
    torch._dynamo.reset()
    return torch.compile(fn, backend=poot, dynamic=dynamic, options={"strict": True, **options})


def attend(x, w):
    q, k, v = (x @ w).unflatten(-1, (3, 4, 32)).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return torch.relu(y.transpose(1, 2).flatten(2)) + x


def convolve(x, w):
    y = F.conv2d(torch.relu(x), w, padding=1)
    return F.conv2d(y * 2, w, padding=1) + x


def attention_inputs(length=64, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(2, length, 128, generator=g) / 4).to(dtype), (torch.randn(128, 384, generator=g) / 12).to(dtype)


def image_inputs(size=32, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(1, 32, size, size, generator=g).to(dtype), (torch.randn(32, 32, 3, 3, generator=g) / 17).to(
        dtype
    )


CASES = [(attend, attention_inputs), (convolve, image_inputs)]


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def close(got, want, dtype=torch.float32):
    torch.testing.assert_close(
        got, want, rtol=2e-2 if dtype == torch.bfloat16 else 1e-4, atol=2e-2 if dtype == torch.bfloat16 else 1e-4
    )


@pytest.mark.parametrize("fn, inputs", CASES)
def test_only_results_are_allocated_in_a_steady_call(fn, inputs):
    f, args = compiled(fn, output_pool=False), inputs()
    for _ in range(3):
        close(f(*args), fn(*args))
    assert peak_of_call(lambda: f(*args)) < 1.5 * args[0].nbytes < 2 * args[0].nbytes < peak_of_call(lambda: fn(*args))


@pytest.mark.parametrize("fn, inputs", CASES)
def test_scratch_memory_that_does_not_fit(fn, inputs):
    f, args = compiled(fn), inputs(dtype=torch.bfloat16)
    for _ in range(3):
        close(f(*args), fn(*args), torch.bfloat16)


@pytest.mark.parametrize("options", [{}, {"fuse": False}, {"freeze": True}])
@pytest.mark.parametrize("fn, inputs", CASES)
def test_results_stay_when_calls_follow(fn, inputs, options):
    f, (x, w) = compiled(fn, **options), inputs()
    others = [inputs(seed=s)[0] for s in range(1, 6)]
    first = f(x, w)
    copy = first.clone()
    rest = [f(o, w) for o in others]
    assert torch.equal(first, copy)
    for o, r in zip(others, rest):
        close(r, fn(o, w))


def test_a_result_of_the_library_for_the_caller_is_its_own():
    def fn(x, w):
        y = F.conv2d(torch.relu(x), w, padding=1)
        return y, F.conv2d(y, w, padding=1)[:, 1:], y.flatten(1).sum(1)

    f, (x, w) = compiled(fn), image_inputs()
    kept = [t for s in range(4) for t in f(image_inputs(seed=s)[0], w)]
    copies = [t.clone() for t in kept]
    f(x, w)
    for t, c in zip(kept, copies):
        assert torch.equal(t, c)
    for s in range(4):
        for t, want in zip(kept[3 * s :], fn(image_inputs(seed=s)[0], w)):
            close(t, want, torch.bfloat16)
    kept[0].resize_(2, 32, 64, 64).fill_(1.0)
    close(f(x, w)[0], fn(x, w)[0])


@pytest.mark.parametrize("fn, inputs", CASES)
def test_sizes_that_change(fn, inputs):
    f = compiled(fn, dynamic=True)
    for size in (16, 48, 7, 33, 48, 16):
        args = inputs(size)
        close(f(*args), fn(*args))


@pytest.mark.parametrize("fn, inputs", CASES)
def test_several_threads(fn, inputs):
    f, w = compiled(fn), inputs()[1]
    f(inputs()[0], w)
    wrong = []

    def work(seed):
        x = inputs(seed=seed)[0]
        want = fn(x, w)
        for _ in range(20):
            scratch = torch.ones(1000 + seed)
            if not torch.allclose(f(x, w), want, rtol=1e-4, atol=1e-4) or scratch.sum() != 1000 + seed:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_gradients():
    x, w = attention_inputs()
    with torch.enable_grad():
        a, b = (t.clone().requires_grad_() for t in (x, w))
        c, d = (t.clone().requires_grad_() for t in (x, w))
        f = compiled(attend)
        for _ in range(2):
            a.grad = b.grad = c.grad = d.grad = None
            f(a, b).square().sum().backward()
            attend(c, d).square().sum().backward()
            torch.testing.assert_close(a.grad, c.grad, rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(b.grad, d.grad, rtol=1e-3, atol=1e-3)


# An operator whose kernel somebody replaced by one that keeps its results and its scratch memory.
def test_what_a_library_keeps_is_never_used_again():
    kept, then = [], []

    def keeps(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
        scratch = torch.full_like(q, 7.0)
        out = (
            torch.softmax(
                (q @ k.transpose(-1, -2) * scale)
                .tril_()
                .masked_fill_(torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu_(1), -torch.inf),
                -1,
            )
            @ v
        )
        result = torch.empty_like(q.transpose(1, 2)).transpose(1, 2).copy_(out)
        kept.extend((scratch, result))
        then.extend((scratch.clone(), result.clone()))
        lse = torch.zeros(q.shape[0], q.shape[2], q.shape[1]).transpose(1, 2)
        return result, lse

    f, (x, w) = compiled(attend), attention_inputs()
    want = attend(x, w)
    close(f(x, w), want)
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("_scaled_dot_product_flash_attention_for_cpu", keeps, "CPU")
        for _ in range(3):
            result = f(x, w)
            close(result, want)
            for t, c in zip(kept, then):
                assert torch.equal(t, c)
            for t, c in zip(kept, then):
                t.fill_(float("nan"))
                c.copy_(t)
                c.nan_to_num_(1.0), t.nan_to_num_(1.0)
            close(result, want)
    finally:
        library._destroy()
    assert len(kept) == 6
    close(f(x, w), want)
