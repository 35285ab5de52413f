"""Functions that PyTorch's own pipeline traces into something else than eager does."""

import pytest
import torch
from three_way import check, gradients

F = torch.nn.functional


@pytest.mark.parametrize("fn", [lambda x: F.dropout(x, 0.5, False), lambda x: F.dropout(x, p=0.0)])
def test_dropout_that_keeps_all_is_its_argument(fn):
    def changed(x):
        y = fn(x)
        y.add_(1)
        return y * 2

    with torch.no_grad():
        check(fn, torch.rand(4, 3), peer=False)
        check(changed, torch.rand(4, 3), peer=False)
        check(lambda x: fn(x * 2) + 1, torch.rand(4, 3))
    gradients(lambda x: (fn(x) ** 2).sum(), torch.rand(4, 3, requires_grad=True))


def test_dropout_that_drops_still_draws():
    x = torch.rand(64, 64)
    fn = lambda x: F.dropout(x, 0.5)  # noqa: E731
    torch.manual_seed(3)
    want = fn(x)
    torch.manual_seed(3)
    torch.testing.assert_close(torch.compile(fn, backend="poot")(x), want, rtol=0, atol=0)
    with pytest.raises(Exception, match="probability"):
        torch.compile(lambda x: F.dropout(x, 1.5, False), backend="poot")(x)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margin_loss_ends_its_lists_at_the_first_minus_one(reduction):
    fn = lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction)  # noqa: E731
    lists = torch.tensor([[4, -1, 0, -1, 2], [0, 0, 4, 1, 4], [-1, 3, -1, 1, 0], [4, 3, 2, 1, 0]])
    torch.manual_seed(0)
    x = torch.randn(4, 5)
    for args in ((x, lists), (x[0], lists[0]), (x[0, 0], torch.tensor(-1)), (x[0, 0], torch.tensor(0))):
        with torch.no_grad():
            check(fn, *(a.clone() for a in args), peer=False)
    gradients(lambda x, t: fn(x, t).sum(), x.requires_grad_(), lists)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@torch.no_grad()
def test_bytes_are_resampled_in_integers(align, mode):
    generator = torch.Generator().manual_seed(0)
    for channels in (1, 3, 6):
        x = torch.randint(0, 256, (2, channels, 27, 40), generator=generator, dtype=torch.uint8)
        for how in ({"size": (13, 61)}, {"size": 27}, {"scale_factor": (0.6, 1.7)}):
            fn = lambda x: F.interpolate(x, mode=mode, align_corners=align, **how)  # noqa: E731, B023
            check(fn, x, peer=False)
            check(fn, x.contiguous(memory_format=torch.channels_last), peer=False)


@pytest.mark.filterwarnings("ignore:.*upsample_bilinear. is deprecated")
@torch.no_grad()
def test_bytes_are_resampled_by_the_older_name():
    x = torch.randint(0, 256, (2, 3, 9, 13), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    check(lambda x: F.upsample_bilinear(x, (5, 31)), x, peer=False)
    check(lambda x: F.upsample_bilinear(x, scale_factor=2), x, peer=False)


@torch.no_grad()
def test_polygamma_in_place():
    fn = lambda x: x.polygamma_(2) + 1  # noqa: E731
    check(fn, torch.rand(5) + 1, peer=False)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ["Adam", "Adamax", "NAdam", "RAdam"])
def test_bias_corrections_are_those_of_python_numbers(name, foreach):
    def train(compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(s, dtype=torch.float64)) for s in ((10,), ())]
        optimizer = getattr(torch.optim, name)(params, lr=0.1, foreach=foreach)
        step = torch.compile(optimizer.step, backend="poot") if compiled else optimizer.step
        for _ in range(3):
            for p in params:
                p.grad = torch.randn_like(p)
            step()
        return [p.detach() for p in params]

    torch.testing.assert_close(train(True), train(False), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("foreach", [False, True])
def test_the_state_of_a_parameter_that_is_a_number_keeps_its_dtype(foreach):
    def train(compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(s)) for s in ((10,), ())]
        options = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}
        optimizer = torch.optim.SGD(params, lr=0.1, foreach=foreach, **options)
        step = torch.compile(optimizer.step, backend="poot") if compiled else optimizer.step
        for _ in range(3):
            for p in params:
                p.grad = torch.randn_like(p)
            step()
        return [p.detach() for p in params], [optimizer.state[p]["momentum_buffer"] for p in params]

    torch.testing.assert_close(train(True), train(False))


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0, 2)])
def test_one_hot(shape):
    x = torch.randint(0, 5, shape)
    check(lambda x: (F.one_hot(x, 5) + 1, F.one_hot(x, num_classes=7)), x)
