"""Training steps: loss, every gradient and every updated parameter as eager's, forward and backward compiled."""

import copy

import pytest
import torch
from torch import nn

from poot_torch.accuracy import error_against
from poot_torch.emitter import REDUCED

ATOL = {torch.float32: 2e-5, torch.bfloat16: 3e-2}


def widened(args):
    return [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]


def step(model, compute_loss, args, **options):
    """(loss, gradients by name) of one training step; compiled when options are given."""
    model = copy.deepcopy(model)
    fn = compute_loss
    if options:
        torch._dynamo.reset()
        fn = torch.compile(compute_loss, backend="poot", options=options)
    loss = fn(model, *args)
    loss.backward()
    return loss.detach(), {n: p.grad for n, p in model.named_parameters()}


def check_step(model, compute_loss, args, dtype, **options):
    want_loss, want = step(model, compute_loss, args)
    loss, got = step(model, compute_loss, args, **options)
    torch.testing.assert_close(loss, want_loss, atol=ATOL[dtype], rtol=1e-3)
    # In bf16 a rounding may turn a ReLU off, in eager as here: the error against float64 tells.
    reference = step(copy.deepcopy(model).double(), compute_loss, widened(args))[1] if dtype in REDUCED else {}
    for name, grad in want.items():
        assert got[name] is not None, f"{name} has no gradient"
        assert got[name].stride() == grad.stride(), name
        if name in reference:
            ours, eagers = (error_against(reference[name], g) for g in (got[name], grad))
            assert ours.within(eagers, dtype), f"{name}: poot {ours}, eager {eagers}"
            continue
        scale = grad.abs().max().item() + 1e-12
        torch.testing.assert_close(got[name] / scale, grad / scale, atol=ATOL[dtype], rtol=1e-3, msg=name)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
        )

    def forward(self, x):
        return self.layers(x)


def cross_entropy(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_mlp_strict(dtype):
    torch.manual_seed(0)
    model = MLP().to(dtype)
    args = (torch.randn(16, 32, dtype=dtype), torch.randint(0, 10, (16,)))
    torch._dynamo.utils.counters.clear()
    check_step(model, cross_entropy, args, dtype, strict=True)
    counters = torch._dynamo.utils.counters["poot"]
    assert counters["graphs:forward"] == 1 and counters["graphs:backward"] == 1
    assert not [k for k in counters if "fallback" in k]


def test_mlp_with_unused_and_frozen_parameters():
    torch.manual_seed(0)
    model = MLP()
    model.layers[3].weight.requires_grad_(False)
    args = (torch.randn(16, 32), torch.randint(0, 10, (16,)))
    want_loss, want = step(model, cross_entropy, args)
    loss, got = step(model, cross_entropy, args, strict=True)
    torch.testing.assert_close(loss, want_loss)
    assert got["layers.3.weight"] is None and want["layers.3.weight"] is None
    torch.testing.assert_close(got["layers.0.weight"], want["layers.0.weight"], atol=2e-6, rtol=1e-4)


def test_gpt2_strict():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=256, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).train()
    ids = torch.randint(0, 256, (2, 16))
    torch._dynamo.utils.counters.clear()
    check_step(model, lambda m, i: m(input_ids=i, labels=i).loss, (ids,), torch.float32, strict=True)
    assert not [k for k in torch._dynamo.utils.counters["poot"] if "fallback" in k]


def test_gpt2_with_dropout_under_one_seed():
    """Draws are ordered calls of eager's generator, forward and backward."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=256, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).train()
    ids = torch.randint(0, 256, (2, 16))

    def loss(m, i):
        return m(input_ids=i, labels=i).loss

    def seeded(m, i):
        torch.manual_seed(5)
        return step(m, loss, (i,), **({"strict": True} if m is model else {}))

    want_loss, want = seeded(copy.deepcopy(model), ids)
    got_loss, got = seeded(model, ids)
    torch.testing.assert_close(got_loss, want_loss, atol=2e-5, rtol=1e-3)
    for name, grad in want.items():
        torch.testing.assert_close(got[name], grad, atol=2e-5, rtol=1e-3, msg=name)
