"""Attention of a GPU with its gradient: the operators that ATen's become, on tensors without memory.

What they compute is tested where there is a GPU (test_training_step.py).
"""

import pytest
import torch
from torch._subclasses import FakeTensorMode

from poot_torch.decompositions import table

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def fake(request):
    if request.config.getoption("--device") != "cpu":
        pytest.skip("the decompositions need no GPU")
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def operands(dtype, device="cuda"):
    return [torch.empty(2, 4, 33, 16, dtype=dtype, device=device) for _ in range(3)]


def states(*tensors):
    return [(t.dtype, t.device.type) for t in tensors]


@pytest.mark.parametrize("bias", [False, True])
def test_efficient_attention(bias):
    q, k, v = operands(torch.float32)
    mask = torch.empty(2, 4, 33, 33, device="cuda") if bias else None
    forward = table()[aten._scaled_dot_product_efficient_attention.default]
    backward = table()[aten._scaled_dot_product_efficient_attention_backward.default]
    out, lse, *state = forward(q, k, v, mask, True, 0.1, True)
    assert (out.shape, lse.shape) == (q.shape, (2, 4, 64))
    assert states(*state) == [(torch.int64, "cuda")] * 2
    grads = backward(out, q, k, v, mask, out, lse, *state, 0.1, [True, True, True, bias], True)
    assert [g.shape for g in grads[:3]] == [q.shape] * 3
    assert (grads[3] is not None) == bias


def test_flash_attention():
    q, k, v = operands(torch.bfloat16)
    out, lse, *lengths, state, unused, mask = table()[aten._scaled_dot_product_flash_attention.default](q, k, v, 0.1)
    assert (out.shape, lse.shape, lengths) == (q.shape, (2, 4, 33), [None, None, 33, 33])
    assert states(state, unused) == [(torch.int64, "cuda")] * 2
    backward = table()[aten._scaled_dot_product_flash_attention_backward.default]
    grads = backward(out, q, k, v, out, lse, *lengths, 0.1, False, state, unused)
    assert [g.shape for g in grads] == [q.shape] * 3


@pytest.mark.parametrize("bias", [False, True])
def test_cudnn_attention(bias):
    q, k, v = operands(torch.bfloat16)
    mask = torch.empty(2, 4, 33, 33, dtype=torch.bfloat16, device="cuda") if bias else None
    forward = table()[aten._scaled_dot_product_cudnn_attention.default]
    out, lse, *lengths, seed, offset, debug = forward(q, k, v, mask, True, 0.1, True)
    assert (out.shape, lse.shape[:3], lengths, debug) == (q.shape, (2, 4, 33), [None, None, 33, 33], None)
    assert states(seed, offset) == [(torch.int64, "cuda")] * 2
    backward = table()[aten._scaled_dot_product_cudnn_attention_backward.default]
    grads = backward(out, q, k, v, out, lse, seed, offset, mask, *lengths, 0.1, True)
    assert [g.shape for g in grads] == [q.shape] * 3


@pytest.mark.parametrize("name", ["efficient", "cudnn"])
def test_what_keeps_atens_operators(name):
    """Nothing reads the log-sum-exp, or the tensors lie elsewhere."""
    forward = table()[getattr(aten, f"_scaled_dot_product_{name}_attention").default]
    assert forward(*operands(torch.float32), None, False) is NotImplemented
    assert forward(*operands(torch.float32, "cpu"), None, True) is NotImplemented
