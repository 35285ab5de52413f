"""Scalars beside f16 and bf16 tensors, bit for bit as eager's vector loops.

Factors and divisors enter unrounded; every other scalar, and alpha, is rounded to the dtype first.
"""

import pytest
import torch
from three_way import equal_bits

REDUCED = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


@REDUCED
def test_python_numbers(dtype):
    def f(a, b):
        return {
            "mul": a * 0.1,
            "div": a / 0.1,
            "add": a + 0.1,
            "sub": a - 0.1,
            "rsub": 0.1 - a,
            "rdiv": 3.3 / a,
            "floor_div": a // 0.1,
            "trunc_div": torch.div(a, 0.1, rounding_mode="trunc"),
            "remainder": a % 0.1,
            "fmod": torch.fmod(a, 0.1),
            "add alpha": torch.add(a, b, alpha=0.3),
            "sub alpha": torch.sub(a, b, alpha=0.3),
            "add scalar alpha": torch.add(a, 0.1, alpha=0.3),
        }

    equal_bits(f, torch.randn(640, dtype=dtype), torch.randn(640, dtype=dtype))


@REDUCED
def test_tensors_of_one_number(dtype):
    def f(a, s):
        return {
            "mul": a * s,
            "rmul": s * a,
            "div": a / s,
            "rdiv": s / a,
            "add": a + s,
            "sub": a - s,
            "maximum": torch.maximum(a, s),
            "where": torch.where(a > 0, a, s),
            "alpha": torch.add(a, s, alpha=2),
        }

    equal_bits(f, torch.randn(640, dtype=dtype), torch.tensor(2.3))


@REDUCED
def test_division_between_tensors_rounds_each_step(dtype):
    def f(a, b):
        return {
            "floor": a // b,
            "trunc": torch.div(a, b, rounding_mode="trunc"),
            "remainder": torch.remainder(a, b),
            "fmod": torch.fmod(a, b),
        }

    a, b = torch.randn(2048, dtype=dtype) * 5, torch.randn(2048, dtype=dtype)
    a[:6] = torch.tensor([0.0, -0.0, torch.inf, torch.nan, 1.0, -1.0])
    b[4:9] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 1e-6])
    equal_bits(f, a, b)
