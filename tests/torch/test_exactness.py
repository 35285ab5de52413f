"""A sample of `python -m qualification.exactness`: all 65,536 inputs, arithmetic equal to eager in every bit."""

import pytest
import torch

from qualification.exactness import ARITHMETIC, TRANSCENDENTAL, check, describe

SAMPLE = ["exp", "log1p", "tanh", "sigmoid", "erfc", "tan", "acosh", "sinh", "gelu", "silu"]
SAMPLE_EXACT = ["add_mul_sub", "square_cube", "lerp", "fmod_remainder", "casts", "rope_rotate_half"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", SAMPLE + SAMPLE_EXACT)
def test_every_input(name, dtype):
    exact = name in SAMPLE_EXACT
    row = check(name, (ARITHMETIC if exact else TRANSCENDENTAL)[name], dtype, exact)
    assert row["pass"], describe(row)
