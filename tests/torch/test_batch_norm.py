"""Batch norm at inference rounds as eager's kernel does: scale and shift, each once. Running statistics keep their
dtype, which the trace may widen."""

import copy

import pytest
import torch
from three_way import check


@pytest.mark.parametrize("layout", (torch.contiguous_format, torch.channels_last))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
def test_eagers_bits(dtype, layout):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 64, 28, 28, generator=generator).to(dtype).contiguous(memory_format=layout)
    if x.device.type != "cpu":
        pytest.skip("eager's kernels of a GPU round otherwise")
    mean, weight, bias = (torch.randn(64, generator=generator) for _ in range(3))
    variance = torch.rand(64, generator=generator) + 0.3

    def fn(x):
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, False, 0.1, 1e-5)

    with torch.no_grad():
        assert torch.equal(check(fn, x, peer=False, judge=False), fn(x))


@pytest.mark.parametrize("shape", ((32, 48, 8, 8), (16, 96, 4, 4), (8, 24, 64), (2, 96, 15, 15), (3, 5, 7, 3, 2)))
@torch.no_grad()
def test_eagers_bits_in_training(shape):
    """Statistics of f32 are summed in f64; the sum of squares and the variance are rounded. Running statistics too."""
    generator = torch.Generator().manual_seed(0)
    channels = shape[1]
    column = [channels if i == 1 else 1 for i in range(len(shape))]
    x = torch.randn(shape, generator=generator) * torch.rand(column, generator=generator) + 3
    weight, bias = torch.randn(channels, generator=generator), torch.randn(channels, generator=generator)

    def fn(x, weight, bias, mean, variance):
        mean, variance = mean.clone(), variance.clone()
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, True, 0.1, 1e-3), mean, variance

    args = x, weight, bias, weight + 1, bias.abs()
    got = check(fn, *args, peer=False, judge=False)
    if x.device.type == "cpu":
        assert all(map(torch.equal, got, fn(*args)))


def test_convolutions_in_training_have_eagers_bits(device):
    """What follows a jump, such as that of relu6's derivative, then has its gradient, not one of the other side."""
    if device != "cpu":
        pytest.skip("a GPU's batch norms round otherwise")
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 16, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU6()]
    for _ in range(3):
        layers += [torch.nn.Conv2d(16, 96, 1, bias=False), torch.nn.BatchNorm2d(96), torch.nn.ReLU6()]
        layers += [torch.nn.Conv2d(96, 96, 3, 1, 1, groups=96, bias=False), torch.nn.BatchNorm2d(96), torch.nn.ReLU6()]
        layers += [torch.nn.Conv2d(96, 16, 1, bias=False), torch.nn.BatchNorm2d(16)]
    net = torch.nn.Sequential(*layers, torch.nn.Conv2d(16, 256, 3, 4))
    other = copy.deepcopy(net)
    compiled = torch.compile(other, backend="poot")
    for seed in range(2):
        x = torch.randn(2, 3, 30, 30, generator=torch.Generator().manual_seed(seed))
        y, got = net(x), compiled(x)
        assert torch.equal(y, got)
        y.square().sum().backward()
        got.square().sum().backward()
    grads, others = (torch.cat([p.grad.flatten() for p in n.parameters()]) for n in (net, other))
    assert (grads - others).norm() <= 1e-5 * grads.norm()
    for b, c in zip(net.buffers(), other.buffers(), strict=True):
        assert torch.equal(b, c)


@pytest.mark.parametrize("training", (True, False))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@torch.no_grad()
def test_running_statistics_of_16_bits(dtype, training):
    torch.manual_seed(0)
    x, mean, weight = torch.randn(4, 5, 6).to(dtype), torch.randn(5).to(dtype), torch.randn(5).to(dtype)
    variance = torch.rand(5).to(dtype) + 0.5

    def fn(x, mean, variance, weight):
        return torch.nn.functional.batch_norm(x, mean, variance, weight, None, training, 0.3)

    check(fn, x, mean, variance, weight, peer=False)
    check(lambda x, m, v: torch.nn.functional.instance_norm(x, m, v, momentum=0.3), x, mean, variance, peer=False)
