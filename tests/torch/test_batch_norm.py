"""Batch norm at inference rounds as eager's kernel does: scale and shift, each once. Running statistics keep their
dtype, which the trace may widen."""

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


@pytest.mark.parametrize("shape", ((32, 48, 8, 8), (16, 96, 4, 4), (8, 24, 64)))
@torch.no_grad()
def test_eagers_bits_in_training(shape):
    """Statistics of f32 are summed in f64, and the variance is rounded between."""
    generator = torch.Generator().manual_seed(0)
    channels = shape[1]
    column = [channels if i == 1 else 1 for i in range(len(shape))]
    x = torch.randn(shape, generator=generator) * torch.rand(column, generator=generator) + 3
    weight, bias = torch.randn(channels, generator=generator), torch.randn(channels, generator=generator)

    def fn(x, weight, bias):
        return torch.nn.functional.batch_norm(x, None, None, weight, bias, True, 0.1, 1e-3)

    got = check(fn, x, weight, bias, peer=False, judge=False)
    if got.device.type == "cpu":
        assert torch.equal(got, fn(x, weight, bias))


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
