"""Operators that PyTorch's table of decompositions lacks: strictly, against eager and float64."""

import pytest
import torch
from three_way import check, gradients

from poot_torch.backend import poot

F = torch.nn.functional


def rand(*shape, grad=True):
    torch.manual_seed(len(shape))
    return torch.randn(*shape).requires_grad_(grad)


def squared(fn):
    return lambda *args: (fn(*args) ** 2).sum()


def close(fn, *args):
    """Gradients as eager's up to the order in which products are added."""
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot, fullgraph=True, options={"strict": True})
    got, want = (torch.autograd.grad(f(*args), args) for f in (compiled, fn))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"])
def test_gradients_of_resampling(mode):
    rank = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode, 2)
    shape = (7, 5, 6)[:rank]
    for size in ((4, 9, 7)[:rank], (14, 10, 12)[:rank]):
        corners = [False, True] if "linear" in mode or mode == "bicubic" else [None]
        for align in corners:
            fn = lambda x: F.interpolate(x, size=size, mode=mode, align_corners=align)  # noqa: E731, B023
            gradients(squared(fn), rand(2, 3, *shape))


def test_gradients_of_padding_by_replication():
    gradients(squared(lambda x: F.pad(x, (2, 3, 1, 0), mode="replicate")), rand(2, 3, 4, 5))


def test_adaptive_averages_of_uneven_windows():
    with torch.no_grad():
        check(lambda x: F.adaptive_avg_pool3d(x, (3, 2, 4)), rand(2, 3, 7, 5, 6, grad=False))
    gradients(squared(lambda x: F.adaptive_avg_pool3d(x, (3, 2, 4))), rand(2, 3, 7, 5, 6))
    gradients(squared(lambda x: F.adaptive_avg_pool2d(x, (3, 4))), rand(2, 3, 7, 5))
    gradients(squared(lambda x: F.adaptive_avg_pool2d(x, (7, 9))), rand(2, 3, 4, 5))


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p):
    with torch.no_grad():
        check(lambda x: F.pdist(x, p), rand(6, 4, grad=False))
    gradients(squared(lambda x: F.pdist(x, p)), rand(6, 4))
    gradients(squared(lambda a, b: torch.cdist(a, b, p)), rand(2, 4, 3), rand(2, 5, 3))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sampling(mode, padding):
    for align in (False, True):
        fn = lambda x, g: F.grid_sample(x, g, mode, padding, align)  # noqa: E731, B023
        close(squared(fn), rand(2, 3, 4, 5), rand(2, 3, 6, 2))
        close(squared(fn), rand(2, 3, 3, 4, 5), rand(2, 2, 3, 4, 3))


@torch.no_grad()
def test_bags_of_rows():
    weight = rand(10, 4, grad=False)
    rows, offsets = torch.tensor([1, 3, 3, 7, 0, 9]), torch.tensor([0, 2, 2, 5])
    for mode in ("sum", "mean", "max"):
        check(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), weight, rows, offsets)  # noqa: B023
        check(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=3), weight, rows, offsets)  # noqa: B023
    each = rand(6, grad=False)
    check(lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s), weight, rows, offsets, each)


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_bags_of_rows(padding, last):
    """The third bag is empty."""
    weight, each = rand(10, 4), rand(6)
    rows, offsets = torch.tensor([1, 3, 3, 7, 0, 9]), torch.tensor([0, 2, 2, 5, *([6] if last else [])])

    def bag(w, **more):
        return F.embedding_bag(rows, w, offsets, padding_idx=padding, include_last_offset=last, **more)

    for mode in ("sum", "mean", "max"):
        gradients(squared(lambda w: bag(w, mode=mode)), weight)  # noqa: B023
        if mode != "max":
            by_frequency = squared(lambda w: bag(w, mode=mode, scale_grad_by_freq=True))  # noqa: B023
            gradients(by_frequency, weight, fallbacks=["aten._embedding_bag_backward.default"])
    gradients(squared(lambda w, s: bag(w, mode="sum", per_sample_weights=s)), weight, each)


def test_maxima_of_bags_that_several_rows_have():
    weight = torch.tensor([[1.0, 2.0], [1.0, 0.0], [0.0, 2.0]]).requires_grad_()
    rows, offsets = torch.tensor([2, 0, 1, 1, 0]), torch.tensor([0, 3])
    gradients(squared(lambda w: F.embedding_bag(rows, w, offsets, mode="max")), weight)


def test_gradients_of_losses():
    target = torch.tensor([1, 0, 3])
    for reduction in ("none", "mean", "sum"):
        for p in (1, 2):
            fn = lambda x: F.multi_margin_loss(x, target, p, reduction=reduction)  # noqa: E731, B023
            gradients(squared(fn), rand(3, 4))


@torch.no_grad()
def test_fractions_and_exponents():
    x = torch.tensor([0.0, -0.0, 1.0, 0.5, 0.99999994, -3.7, 1e-30, 3e38, 1e-42, float("inf"), float("nan"), 8.0])
    got = check(lambda v: tuple(torch.frexp(v)), torch.cat([x, -x]), judge=False)
    assert torch.equal(torch.ldexp(*got)[2:9], x[2:9])


def test_gradients_of_places_chosen_by_a_mask():
    mask = torch.tensor([[True, False, True], [False, True, True]])
    fn = squared(lambda x, s: torch.masked_scatter(x, mask, s))
    gradients(fn, rand(2, 3), rand(7))
    gradients(fn, rand(2, 3), rand(2, 2))
    gradients(squared(lambda x, s: torch.masked_scatter(x, mask[:0], s)), rand(0, 3), rand(0))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resampling(mode):
    for size in ((3, 4), (17, 5), (9, 13)):
        for align in (False, True):
            fn = lambda x: F.interpolate(x, size=size, mode=mode, align_corners=align, antialias=True)  # noqa: E731, B023
            with torch.no_grad():
                check(fn, rand(2, 3, 9, 13, grad=False))
            gradients(squared(fn), rand(2, 3, 9, 13))
    fn = lambda x: F.interpolate(x, scale_factor=(0.4, 2.3), mode=mode, antialias=True)  # noqa: E731
    gradients(squared(fn), rand(2, 3, 9, 13))


@torch.no_grad()
def test_averages_of_integers():
    x = torch.randint(-9, 9, (2, 3, 8, 7), generator=torch.Generator().manual_seed(0))
    for more in ({}, {"stride": 1, "padding": 1}, {"padding": 1, "count_include_pad": False, "ceil_mode": True}):
        check(lambda x: F.avg_pool2d(x, 2, **more), x)  # noqa: B023
    check(lambda x: F.avg_pool2d(x, 3, divisor_override=5), x)


@torch.no_grad()
def test_sampling_of_no_images():
    check(lambda x, g: F.grid_sample(x, g), torch.randn(0, 2, 3, 4, 5), torch.randn(0, 2, 3, 4, 3))
    check(lambda x: F.one_hot(x, 7) + 1, torch.tensor([1, 5, 6]))


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
@torch.no_grad()
def test_unpooling_is_laid_out_as_its_operand(form):
    for shape in ((2, 3, 4, 6), (1, 2, 3, 6), (2, 1, 4, 2), (0, 3, 2, 2)):
        x, places = F.max_pool2d(rand(*shape, grad=False), 2, return_indices=True)
        fn = lambda x, i: F.max_unpool2d(x, i, 2, output_size=shape[2:])  # noqa: E731, B023
        check(fn, x.contiguous(memory_format=form), places, peer=False)
        check(fn, x.contiguous(memory_format=form), places.contiguous(memory_format=form), peer=False)
    check(lambda x, i: F.max_unpool2d(x, i, 2), rand(3, 2, 2, grad=False), torch.tensor([[[0, 2], [8, 10]]] * 3))
