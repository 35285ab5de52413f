"""Which zero comes out: bit for bit as eager's vector loops."""

import pytest
import torch
import torch.nn.functional as F
from three_way import equal_bits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bounds_leave_an_equal_operand_as_it_is(dtype):
    def f(a, b):
        return {
            "relu": F.relu(a),
            "relu6": F.relu6(a),
            "hardtanh": F.hardtanh(a),
            "clamp": a.clamp(0, 1),
            "clamp_min": a.clamp(min=0),
            "clamp_max": (-a).clamp(max=-0.0),
            "maximum": torch.maximum(a, b),
            "minimum": torch.minimum(a, b),
            "product": a * -1,
            "copysign": torch.copysign(a, b),
            "add": a + 0.0,
            "sub": 0.0 - a,
            "round": torch.round(a * 0.25),
        }

    a = torch.tensor([-0.0, 0.0, -0.0, 0.0, 1.0, -1.0, torch.inf, -torch.inf]).repeat(64).to(dtype)
    b = torch.tensor([0.0, -0.0, -0.0, 0.0, -0.0, 0.0, torch.nan, 0.0]).repeat(64).to(dtype)
    equal_bits(f, a, b)


def test_no_sum_is_a_negative_zero():
    """Sums start at 0.0, over axes of one element too."""

    def f(a):
        return {
            "all": a.sum(),
            "one": a[:1].sum(),
            "unit axis": a.view(-1, 1).sum(1),
            "unit axis first": a.view(1, -1).sum(0),
            "rows": a.view(8, 8).sum(0),
            "mean": a[:1].mean(),
        }

    equal_bits(f, torch.full((64,), -0.0))
