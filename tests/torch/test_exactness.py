"""A fixed part of `python -m qualification.exactness`: all 65,536 inputs, by the same criteria."""

import pytest
import torch

from qualification.exactness import check, describe, differs, special_differs, steps
from qualification.exactness_cases import inputs

BF16_AND_F16 = {
    "function": ["exp", "log1p", "tanh", "sigmoid", "erf", "erfc", "tan", "acosh", "sinh", "cosh", "lgamma"],
    "composed": ["pow_1.7", "gelu", "gelu_tanh", "silu", "logsigmoid", "mish"],
    "binary": ["atan2", "logaddexp", "xlogy", "nextafter"],
    "arithmetic": ["add_mul_sub", "square_cube", "lerp", "fmod_remainder", "casts", "rope_rotate_half"],
}
F32 = {
    "function": ["exp", "expm1", "log2", "log1p", "tanh", "erf", "erfc", "sin", "tan", "acosh", "sinh", "lgamma"],
    "composed": ["gelu", "silu", "logsigmoid"],
    "binary": ["hypot", "nextafter"],
}


def _cases(table):
    return [(kind, name) for kind, names in table.items() for name in names]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize(("kind", "name"), _cases(BF16_AND_F16))
def test_every_input(kind, name, dtype):
    row = check(name, kind, dtype)
    assert row["pass"], describe(row)


@pytest.mark.parametrize(("kind", "name"), _cases(F32))
def test_f32(kind, name):
    row = check(name, kind, torch.float32)
    assert row["pass"], describe(row)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_gelu_of_a_transposed_tensor(dtype):
    """Eager computes it by another formula than a contiguous one."""
    x = inputs("composed", dtype)[0].view(256, 256).t()
    got = torch.compile(torch.nn.functional.gelu, backend="poot", options={"strict": True})(x)
    want = torch.nn.functional.gelu(x)
    assert steps(got, want).max() <= 1 and not special_differs(got, want).any()
    assert differs(got, want).double().mean() <= 0.001
