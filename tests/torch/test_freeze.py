"""Option freeze: weights kept packed between calls, and what notices their updates."""

import pytest
import torch
from three_way import copied

import poot_torch
from poot_torch.accuracy import error_against

F = torch.nn.functional


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


class Block(torch.nn.Module):
    def __init__(self, groups=1):
        super().__init__()
        self.first = torch.nn.Conv2d(8, 16, 3, padding=1, groups=groups)
        self.norm = torch.nn.BatchNorm2d(16)
        self.second = torch.nn.Conv2d(16, 8, 1, stride=2, bias=False)

    def forward(self, x):
        return self.second(F.relu(self.norm(self.first(x))))


def frozen(module):
    torch._dynamo.reset()
    return torch.compile(module, backend="poot", options={"freeze": True, "strict": True})


def kernels():
    return [op["kernel"] for g in poot_torch.last_report().to_json()["graphs"] for op in g["ops"]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_values_and_strides(dtype, memory_format):
    torch.manual_seed(0)
    module = Block(groups=2).eval().to(dtype)
    x = torch.randn(2, 8, 15, 17).to(dtype).contiguous(memory_format=memory_format)
    want, got = module(x), frozen(module)(x)
    assert got.stride() == want.stride()
    reference = copied_module(module)(x.double())
    assert error_against(reference, got).within(error_against(reference, want), dtype)
    assert kernels().count("convolution_packed") == 2


def copied_module(module):
    import copy

    return copy.deepcopy(module).double()


def test_updates_are_noticed():
    torch.manual_seed(0)
    module = Block().eval()
    x = torch.randn(1, 8, 8, 8)
    fn = frozen(module)
    torch.testing.assert_close(fn(x), module(x))
    module.first.weight.mul_(2)  # in place
    torch.testing.assert_close(fn(x), module(x))
    module.load_state_dict({k: v + 0.5 for k, v in module.state_dict().items()})
    torch.testing.assert_close(fn(x), module(x))
    module.second.weight = torch.nn.Parameter(torch.randn_like(module.second.weight))  # another tensor
    torch.testing.assert_close(fn(x), module(x))


def test_other_image_sizes():
    torch.manual_seed(0)
    module = Block().eval()
    fn = frozen(module)
    for batch, size in ((1, 8), (3, 9), (2, 30)):
        x = torch.randn(batch, 8, size, size)
        torch.testing.assert_close(fn(x), module(x))


def test_off_by_default_and_only_for_parameters():
    def fn(x, w):
        return F.conv2d(x, w)

    x, w = torch.randn(1, 8, 8, 8), torch.randn(8, 8, 3, 3)
    torch.testing.assert_close(frozen(fn)(*copied((x, w))), fn(x, w))
    assert "convolution_packed" not in kernels()
    torch._dynamo.reset()
    module = Block().eval()
    torch.compile(module, backend="poot")(x)
    assert "convolution_packed" not in kernels()
