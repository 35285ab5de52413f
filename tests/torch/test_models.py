"""The demo models, strict: which ATen ops run, and the error against float64 beside eager's."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from poot_torch import demo_models
from poot_torch.accuracy import error_against

# What a library plan may call (program/library.def), and what those calls call inside.
LIBRARY = {
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::convolution",
    "aten::max_pool2d_with_indices",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
}

MODELS = [c.name for c in demo_models.CASES]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def top_level_ops(events):
    """ATen ops that no other ATen op called."""
    return {e.name for e in events if e.name.startswith("aten::") and not has_aten_parent(e)}


def has_aten_parent(event):
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith("aten::"):
            return True
        parent = parent.cpu_parent
    return False


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_strict_model(name, dtype):
    case, dtype = demo_models.case(name), DTYPES[dtype]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    reference = case.build(dtype, 0, True)()
    eager = case.build(dtype, 0, False)()
    instance = case.build(dtype, 0, False)
    compiled = torch.compile(instance.fn, backend="poot", options={"strict": True}, fullgraph=True)
    instance.reset()
    compiled(*instance.args)
    instance.reset()
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        value = compiled(*instance.args)
    assert top_level_ops(prof.events()) <= LIBRARY
    assert value.dtype == eager.dtype and value.shape == eager.shape and value.stride() == eager.stride()
    poot_error, eager_error = error_against(reference, value), error_against(reference, eager)
    assert poot_error.within(eager_error, dtype), f"poot {poot_error}, eager {eager_error}"
    assert not [k for k in torch._dynamo.utils.counters["poot"] if "fallback" in k]


@pytest.mark.parametrize("dtype", DTYPES)
def test_strict_training_step(dtype):
    """The loss and each parameter's gradient."""
    case, dtype = demo_models.case("gpt2-training-8"), DTYPES[dtype]
    torch._dynamo.reset()

    def step(wide, of=lambda fn: fn):
        instance = case.build(dtype, 0, wide, tiny=True)
        return instance.step(of(instance.fn))(*instance.args)

    reference, eager = step(True), step(False)
    value = step(False, lambda fn: torch.compile(fn, backend="poot", options={"strict": True}))
    assert len(value) == len(eager) == len(reference) == 17
    for r, e, v in zip(reference, eager, value, strict=True):
        assert v.dtype == e.dtype and v.shape == e.shape and v.stride() == e.stride()
        poot_error, eager_error = error_against(r, v), error_against(r, e)
        assert poot_error.rms <= max(1.5 * eager_error.rms, 2 * torch.finfo(dtype).eps * eager_error.scale)


def test_decode_writes_the_cache_as_eager_does():
    """The static cache after several steps equals eager's, position counter included."""
    case = demo_models.case("llama-decode")
    torch._dynamo.reset()
    with torch.no_grad():
        eager, ours = case.build(torch.float32, 3, False), case.build(torch.float32, 3, False)
        compiled = torch.compile(ours.fn, backend="poot", options={"strict": True})
        eager.reset(), ours.reset()
        for _ in range(3):
            want, got = eager.fn(*eager.args), compiled(*ours.args)
            torch.testing.assert_close(got, want)
        want_cache, got_cache = (i.fn.__closure__ for i in (eager, ours))
        caches = [
            next(c.cell_contents for c in cells if hasattr(c.cell_contents, "layers"))
            for cells in (want_cache, got_cache)
        ]
        for a, b in zip(caches[0].layers, caches[1].layers, strict=True):
            assert torch.equal(a.cumulative_length, b.cumulative_length)
            torch.testing.assert_close(b.keys, a.keys)
            torch.testing.assert_close(b.values, a.values)
