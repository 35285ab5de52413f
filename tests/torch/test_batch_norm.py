"""Batch norm at inference rounds as eager's kernel does: scale and shift, each once."""

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
