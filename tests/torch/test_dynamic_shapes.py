"""One compile serves all sizes in a guarded range."""

import pytest
import torch
import torch._dynamo.testing
import torch.nn.functional as F
from three_way import check

from poot_torch import _C


def small_bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=512, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    return BertModel(config).eval()


def poot_graphs():
    return sum(v for k, v in torch._dynamo.utils.counters["poot"].items() if k.startswith("graphs"))


@torch.no_grad()
def test_bert_twelve_batches_and_lengths():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = small_bert()
    compiled = torch.compile(
        lambda ids: model(input_ids=ids).last_hidden_state, backend="poot", dynamic=True, options={"strict": True}
    )

    def check(batch, length):
        ids = torch.randint(0, 512, (batch, length), generator=torch.Generator().manual_seed(batch * 1000 + length))
        torch.testing.assert_close(compiled(ids), model(input_ids=ids).last_hidden_state, atol=2e-5, rtol=1e-4)

    check(4, 16)
    kernels = _C.store_stats()["compiled"] + _C.store_stats()["disk"]
    for i in range(12):
        check(2 + i, 8 + 3 * i)
    assert poot_graphs() == 1
    stats = _C.store_stats()
    assert stats["compiled"] + stats["disk"] == kernels, "a new size must not bring a new kernel"
    check(1, 16)
    assert poot_graphs() == 2
    assert not [k for k in torch._dynamo.utils.counters["poot"] if "fallback" in k]


def test_sizes_used_as_values():
    torch._dynamo.reset()

    def fn(x):
        return x * x.shape[0] + x.sum(-1, keepdim=True) / x.shape[1]

    compiled = torch.compile(fn, backend="poot", dynamic=True, options={"strict": True})
    for shape in ((3, 5), (7, 4), (20, 33), (2, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), fn(x))


@torch.no_grad()
def dynamically(fn, *calls, graphs=1):
    """So many strict graphs serve every call."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(fn, backend="poot", dynamic=True, options={"strict": True})
    for args in calls:
        torch.testing.assert_close(compiled(*args), fn(*args))
    assert poot_graphs() <= graphs


def graphs_of_a_trace(fn, *calls):
    """How many graphs PyTorch makes of the calls without decompositions: shape functions may guard sizes."""
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("eager")
    compiled = torch.compile(fn, backend=counter, dynamic=True)
    for args in calls:
        compiled(*args)
    return counter.frame_count


def test_diagonals():
    fn = lambda x: (x.diagonal() * 2, x.diagonal(1), torch.diagonal_scatter(x, x.diagonal() + 1))  # noqa: E731
    dynamically(fn, *[(torch.randn(n, n),) for n in (3, 5, 8)])


def test_a_size_that_is_a_product_of_others():
    fn = lambda x, a, b: torch.unflatten(x, 0, (a, b)).sum(1) * 2  # noqa: E731
    dynamically(fn, (torch.randn(6, 4), 2, 3), (torch.randn(20, 5), 4, 5), (torch.randn(12, 2), 6, 2))


def test_ratios_of_sizes():
    F = torch.nn.functional
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        fn = lambda x, h, w: F.interpolate(x, size=(h, w), mode=mode)  # noqa: E731, B023
        dynamically(fn, (torch.randn(2, 3, 4, 5), 7, 3), (torch.randn(2, 3, 9, 6), 5, 12))
    dynamically(lambda x: x * (x.shape[0] / x.shape[1]) + 1, (torch.randn(3, 7),), (torch.randn(5, 4),))


def test_cubic_resampling_as_on_gpus(monkeypatch):
    """The decomposition of bicubic resampling has a form of its own for devices other than the CPU."""
    d = torch._decomp.decompositions

    def coefficients(t):
        outer, inner = d._upsample_cubic_convolution2, d._upsample_cubic_convolution1
        return outer(t + 1.0, -0.75), inner(t, -0.75), inner(1.0 - t, -0.75), outer(2.0 - t, -0.75)

    monkeypatch.setattr(d, "_upsample_get_cubic_coefficients", coefficients)
    fn = lambda x, h, w: torch.nn.functional.interpolate(x, size=(h, w), mode="bicubic")  # noqa: E731
    dynamically(fn, (torch.randn(2, 3, 4, 5), 7, 3), (torch.randn(2, 3, 9, 6), 5, 12))


def test_averages_over_windows():
    F = torch.nn.functional
    calls = [(torch.randn(2, 3, 9, 7),), (torch.randn(2, 3, 5, 14),)]
    for more in ({}, {"padding": 1, "count_include_pad": False}, {"stride": 3, "ceil_mode": True, "padding": 1}):
        dynamically(lambda x: F.avg_pool2d(x, 3, **{"stride": 2, **more}), *calls, graphs=2)  # noqa: B023
    pairs = lambda x: F.avg_pool1d(x, 2)  # noqa: E731
    dynamically(pairs, (torch.randn(2, 3, 8),), (torch.randn(2, 3, 12),))
    odd = (torch.randn(2, 3, 8),), (torch.randn(2, 3, 11),)
    dynamically(pairs, *odd, graphs=graphs_of_a_trace(pairs, *odd))


def test_adaptive_averages():
    F = torch.nn.functional
    calls = [(torch.randn(2, 3, 9, 7),), (torch.randn(2, 3, 5, 14),), (torch.randn(2, 3, 6, 30),)]
    for size in ((2, 3), (4, None), (20, 1)):
        dynamically(lambda x: F.adaptive_avg_pool2d(x, size), *calls)  # noqa: B023
    dynamically(lambda x: F.interpolate(x, size=(4, 20), mode="area"), *calls)
    dynamically(lambda x: F.adaptive_avg_pool1d(x[0], 4), *calls)
    dynamically(lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), *calls)

    gradient = lambda g, x: torch.ops.aten._adaptive_avg_pool2d_backward(g, x)  # noqa: E731
    dynamically(gradient, *[(torch.randn(2, 3, n, 5), x) for n, (x,) in zip((4, 11, 7), calls, strict=True)])


def test_ranges_and_masks_of_symbolic_length():
    fn = lambda x: torch.arange(x.shape[0], dtype=x.dtype, device=x.device) * x  # noqa: E731
    dynamically(fn, (torch.randn(3),), (torch.randn(9),))
    masked = lambda x, m, s: torch.masked_scatter(x, m, s)  # noqa: E731
    dynamically(masked, *[(torch.zeros(n), torch.arange(n) % 2 == 0, torch.randn(n)) for n in (4, 7)])


@torch.no_grad()
def test_views_of_memory_around_their_operand():
    torch._dynamo.reset()
    fn = lambda x, a, b: x.as_strided((a, b), (1, a), 0) * 2  # noqa: E731
    compiled = torch.compile(fn, backend="poot", dynamic=True, options={"strict": True})
    for a, b in ((2, 3), (4, 2)):
        x = torch.randn(20)[7:]
        torch.testing.assert_close(compiled(x, a, b), fn(x, a, b))
    dynamically(lambda x, a: x.as_strided((a, 2), (1, 2)) + 1, *[(torch.randn(30)[n : n + 4], n) for n in (3, 5, 9)])


def test_sizes_that_a_number_divides():
    """Guards tell that it does: the groups add up to the size, and what is made of half a size is bound by it."""
    F = torch.nn.functional
    groups = lambda x: F.group_norm(x, 2) + 1  # noqa: E731
    dynamically(groups, *[(torch.randn(3, c, 5),) for c in (4, 6, 10)])
    shuffled = lambda x: F.channel_shuffle(x, 2) * 2  # noqa: E731
    dynamically(shuffled, *[(torch.randn(2, c, 3, 7),) for c in (4, 6, 10)])
    halves = lambda x: x.view(2, -1).sum(0) * torch.unflatten(x, 0, (-1, 2)).mean(1)  # noqa: E731
    dynamically(halves, *[(torch.randn(n),) for n in (6, 8, 14)])


def test_slices_of_symbolic_steps():
    fn = lambda x, y, a, b: torch.slice_scatter(x, y, 0, a, None, b) * 2  # noqa: E731
    dynamically(fn, (torch.randn(9, 2), torch.randn(4, 2), 1, 2), (torch.randn(20, 2), torch.randn(5, 2), 6, 3))


def test_sizes_that_a_symbol_divides():
    """A trace's own views are of as many elements, whatever of it can be proved from the sizes alone."""
    F = torch.nn.functional
    heads = lambda x: x.view(1, x.shape[0], 4, x.shape[1] // 4).transpose(1, 2) * 2  # noqa: E731
    dynamically(heads, *[(torch.randn(*s),) for s in ((3, 8), (5, 12), (6, 20))])
    split = lambda x, n: torch.unflatten(x * 2, 1, (n, -1)).sum(2) + 1  # noqa: E731
    dynamically(split, (torch.randn(3, 6), 2), (torch.randn(5, 12), 4), (torch.randn(2, 15), 5))
    shuffled = lambda x, n: F.channel_shuffle(x + 1, n) * 2  # noqa: E731
    dynamically(shuffled, (torch.randn(2, 6, 3, 7), 2), (torch.randn(3, 12, 2, 5), 4))
    chunks = lambda x, n: x.exp().reshape(x.shape[0], n, x.shape[1] // n).softmax(-1)  # noqa: E731
    dynamically(chunks, (torch.randn(3, 6), 2), (torch.randn(5, 12), 3))
    rows = lambda x, n: (x * 2).reshape(-1, n).relu().sum(1)  # noqa: E731
    dynamically(rows, (torch.randn(4, 6), 3), (torch.randn(2, 20), 8))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_heads_of_symbolic_size(causal):
    attention = torch.nn.functional.scaled_dot_product_attention
    fn = lambda q, k, v: attention(q * 2, k, v, is_causal=causal) + 1  # noqa: E731
    sizes = (2, 3, 7, 7, 16), (3, 4, 9, 9, 24), (2, 5, 6, 6, 40)
    calls = [(torch.randn(b, h, n, d), torch.randn(b, h, s, d), torch.randn(b, h, s, d)) for b, h, n, s, d in sizes]
    dynamically(fn, *calls)
    for q, k, v in calls:
        check(fn, q, k, v, dynamic=True)


def test_attention_with_masks_of_symbolic_size():
    attention = torch.nn.functional.scaled_dot_product_attention
    fn = lambda q, m: attention(q, q, q * 2, attn_mask=m)  # noqa: E731
    calls = [(torch.randn(2, 3, n, d), torch.randn(n, n)) for n, d in ((5, 16), (9, 32))]
    dynamically(fn, *calls)


def test_views_by_symbolic_factors():
    for n, shape in ((2, (3, 6)), (4, (5, 12))):
        check(lambda x, n=n: torch.unflatten(x * 2, 1, (n, -1)).mean(2), torch.randn(*shape), dynamic=True)
        check(lambda x: x.view(1, x.shape[0], 2, x.shape[1] // 2) + 1, torch.randn(*shape), dynamic=True)
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    check(lambda x: torch.linalg.tensorinv(x, ind=1), x, dynamic=True)


@torch.no_grad()
def test_views_whose_sizes_are_arguments():
    """Sizes that no expression relates to the operand's: the trace guards that they hold as many elements."""
    cases = {
        "view": (lambda x, s: x.view(s), (25, 5), (5, 5, 5)),
        "reshape": (lambda x, s: (x * 2).reshape(s) + 1, (6, 4), (2, 3, 4)),
        "transposed": (lambda x, s: x.t().reshape(s).cos(), (6, 4), (8, 3)),
        "view_copy": (lambda x, s: torch.view_copy(x, s), (6, 4), (12, 2)),
        "shuffled": (lambda x, g: F.channel_shuffle(x, g) + 1, (2, 6, 3, 4), 3),
        "unshuffled": (lambda x, r: F.pixel_unshuffle(x, r), (2, 3, 6, 9), 3),
    }
    for fn, shape, sizes in cases.values():
        torch._dynamo.reset()
        compiled = torch.compile(fn, backend="poot", dynamic=True, options={"strict": True})
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        got, want = compiled(x, sizes), fn(x, sizes)
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()
