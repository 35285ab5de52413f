"""Option freeze: weights kept packed between calls, and what notices their updates."""

import pytest
import torch
from three_way import copied

import poot_torch
from poot_torch.accuracy import error_against

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("inference")


class Block(torch.nn.Module):
    def __init__(self, groups=1):
        super().__init__()
        self.first = torch.nn.Conv2d(8, 16, 3, padding=1, groups=groups)
        self.norm = torch.nn.BatchNorm2d(16)
        self.second = torch.nn.Conv2d(16, 8, 1, stride=2, bias=False)

    def forward(self, x):
        return self.second(F.relu(self.norm(self.first(x))))


def frozen(module, **options):
    torch._dynamo.reset()
    return torch.compile(module, backend="poot", options={"freeze": True, "strict": True, **options})


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


class Residual(torch.nn.Module):
    """Two convolutions with norms, a residual sum with a third, and the cut at zero."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (
            torch.nn.Conv2d(8, 16, 3, padding=1),
            torch.nn.Conv2d(16, 16, 3, padding=1, bias=False),
        )
        self.down = torch.nn.Conv2d(8, 16, 1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(16) for _ in range(3))
        for norm in self.norms:
            torch.nn.init.normal_(norm.weight)
            torch.nn.init.normal_(norm.bias)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        y = F.relu(self.norms[1](self.second(y)) + self.norms[2](self.down(x)))
        return y, self.second(y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_residuals_and_cuts_go_into_the_convolution(dtype):
    torch.manual_seed(0)
    module = Residual().eval().to(dtype)
    fn = frozen(module)
    for _ in range(2):
        x = torch.randn(2, 8, 15, 17).to(dtype)
        reference = copied_module(module)(x.double())
        for got, want, exact in zip(fn(x), module(x), reference, strict=True):
            assert got.stride() == want.stride()
            assert error_against(exact, got).within(error_against(exact, want), dtype)
        module.norms[1].running_var.mul_(3)  # noticed by the scale's values
        module.second.weight.mul_(2)
    assert kernels().count("convolution_packed") == 4


@pytest.mark.parametrize("size", [15, 32, 64])
def test_what_is_packed_is_none_of_a_calls_memory(size):
    torch.manual_seed(0)
    module = Residual().eval()
    fn = frozen(module, output_pool=False)
    x = torch.randn(2, 8, size, size + 2)
    want = module(x)
    sizes = [*range(16, 1 << 16, 256), *range(1 << 16, 1 << 20, 1 << 16)]
    kept = []
    for _ in range(3):
        torch.testing.assert_close(fn(x), want)
        kept.extend(torch.full((n,), torch.nan) for n in sizes)  # where the call's memory was


def test_a_norm_in_training_stays_outside():
    torch.manual_seed(0)
    module = Residual().train()
    x = torch.randn(2, 8, 9, 9)
    want = copied_module(module)(x.double())
    for got, w in zip(frozen(module)(x), want, strict=True):
        torch.testing.assert_close(got.double(), w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(40, 48), (2, 33, 48), (1, 1, 48)])
def test_linear_weights(bias, shape):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(48, 70, bias), torch.nn.GELU(), torch.nn.Linear(70, 30, bias))
    module = module.bfloat16()
    fn = frozen(module)
    for _ in range(2):
        x = torch.randn(shape).bfloat16()
        got, want, exact = fn(x), module(x), copied_module(module)(x.double())
        assert got.stride() == want.stride()
        assert error_against(exact, got).within(error_against(exact, want), torch.bfloat16)
        module[0].weight.mul_(2)
    rows = x.numel() // 48
    assert kernels().count("linear_packed") == (2 if rows > 8 else 0)


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
