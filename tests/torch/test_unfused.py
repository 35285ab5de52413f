"""`fuse=False` runs an operator a kernel: the same bits, since every equation rounds to its dtype either way."""

import pytest
import torch
from torch.utils import _pytree

import poot_torch
from poot_torch import demo_models


def outputs(case, dtype: torch.dtype, fuse: bool):
    torch._dynamo.reset()
    instance = case.build(dtype, 0, False, True)
    instance.reset()
    fn = torch.compile(instance.fn, backend="poot", options={"strict": True, "fuse": fuse})
    with torch.no_grad():
        leaves = [t.clone() for t in _pytree.tree_leaves(fn(*instance.args)) if isinstance(t, torch.Tensor)]
    return leaves, poot_torch.last_report().totals()["dispatches_after"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("name", ["llama-prefill", "bert", "resnet18"])
def test_fused_and_unfused_agree_in_every_bit(name, dtype):
    fused, few = outputs(demo_models.case(name), dtype, True)
    unfused, many = outputs(demo_models.case(name), dtype, False)
    assert few < many
    assert len(fused) == len(unfused) > 0
    for a, b in zip(fused, unfused, strict=True):
        assert a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a, b)
