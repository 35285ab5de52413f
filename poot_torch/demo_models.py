"""The demo's models: transformers architectures from their configs, at a small size, with random weights.

Each case builds an `Instance`: a callable that takes tensors only, its arguments, and `reset()`, which puts
mutable state (a static key-value cache) back so that every call computes the same step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch


@dataclasses.dataclass
class Instance:
    fn: Callable[..., torch.Tensor]
    args: tuple[torch.Tensor, ...]
    reset: Callable[[], None] = lambda: None

    def __call__(self) -> torch.Tensor:
        self.reset()
        return self.fn(*self.args)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    # (dtype, seed, wide=False, tiny=False, device="cpu"): equal seeds give equal weights and inputs; `wide` keeps the
    # values rounded to dtype but computes in float64, which makes the reference; `tiny` keeps the structure, with one
    # layer and few elements, for interpreters.
    build: Callable[..., Instance]


def _model(cls, config, dtype: torch.dtype, seed: int, wide: bool, device: str):
    torch.manual_seed(seed)
    model = cls(config).eval()
    # Random initialisation leaves norms at 1 and biases at 0; real checkpoints do not.
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
    return (model.to(dtype).double() if wide else model.to(dtype)).to(device)


def _tokens(vocab: int, batch: int, length: int, seed: int, device: str) -> torch.Tensor:
    return torch.randint(0, vocab, (batch, length), generator=torch.Generator().manual_seed(seed)).to(device)


def _pixels(shape: tuple[int, ...], dtype: torch.dtype, seed: int, wide: bool, device: str) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return (x.double() if wide else x).to(device)


def _llama(dtype: torch.dtype, seed: int, wide: bool, tiny: bool, device: str):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64 if tiny else 8192,
        hidden_size=32 if tiny else 512,
        intermediate_size=48 if tiny else 1408,
        num_hidden_layers=1 if tiny else 4,
        num_attention_heads=4 if tiny else 8,
        num_key_value_heads=2 if tiny else 4,
        max_position_embeddings=1024,
    )
    return _model(LlamaForCausalLM, config, dtype, seed, wide, device)


def llama_prefill(
    dtype: torch.dtype, seed: int, wide: bool = False, tiny: bool = False, device: str = "cpu"
) -> Instance:
    model = _llama(dtype, seed, wide, tiny, device)
    tokens = _tokens(model.config.vocab_size, 1, 6 if tiny else 128, seed, device)
    return Instance(lambda ids: model(input_ids=ids, use_cache=False).logits, (tokens,))


def llama_decode(
    dtype: torch.dtype, seed: int, wide: bool = False, tiny: bool = False, device: str = "cpu"
) -> Instance:
    """One token against a static cache of 1024 positions, 256 of them filled by an eager prefill."""
    from transformers import StaticCache

    model = _llama(dtype, seed, wide, tiny, device)
    vocab = model.config.vocab_size
    filled, length = (4, 16) if tiny else (256, 1024)
    cache: Any = StaticCache(config=model.config, max_cache_len=length)
    with torch.no_grad():
        model(input_ids=_tokens(vocab, 1, filled, seed, device), past_key_values=cache, use_cache=True)
    token = _tokens(vocab, 1, 1, seed + 1, device)

    def step(ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return model(input_ids=ids, position_ids=position, past_key_values=cache, use_cache=True).logits

    def reset() -> None:
        for layer in cache.layers:
            if hasattr(layer, "cumulative_length"):  # transformers 4 tells the position by argument instead
                layer.cumulative_length.fill_(filled)

    return Instance(step, (token, torch.tensor([[filled]], device=device)), reset)


def bert(dtype: torch.dtype, seed: int, wide: bool = False, tiny: bool = False, device: str = "cpu") -> Instance:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=64 if tiny else 8192,
        hidden_size=32 if tiny else 256,
        num_hidden_layers=1 if tiny else 4,
        num_attention_heads=4,
        intermediate_size=48 if tiny else 1024,
    )
    model = _model(BertModel, config, dtype, seed, wide, device)
    batch, length = (2, 6) if tiny else (4, 128)
    mask = torch.ones(batch, length, dtype=torch.long, device=device)
    mask[1, length - length // 4 :] = 0
    mask[-1, length // 2 :] = 0
    return Instance(
        lambda ids, m: model(input_ids=ids, attention_mask=m).last_hidden_state,
        (_tokens(config.vocab_size, batch, length, seed, device), mask),
    )


def vit(dtype: torch.dtype, seed: int, wide: bool = False, tiny: bool = False, device: str = "cpu") -> Instance:
    from transformers import ViTConfig, ViTModel

    size = 32 if tiny else 224
    config = ViTConfig(
        hidden_size=32 if tiny else 256,
        num_hidden_layers=1 if tiny else 4,
        num_attention_heads=4,
        intermediate_size=48 if tiny else 1024,
        image_size=size,
        patch_size=16,
    )
    model = _model(ViTModel, config, dtype, seed, wide, device)
    return Instance(
        lambda x: model(pixel_values=x).last_hidden_state, (_pixels((2, 3, size, size), dtype, seed, wide, device),)
    )


def resnet18(dtype: torch.dtype, seed: int, wide: bool = False, tiny: bool = False, device: str = "cpu") -> Instance:
    from transformers import ResNetConfig, ResNetForImageClassification

    size = 32 if tiny else 224
    config = ResNetConfig(
        embedding_size=4 if tiny else 64,
        hidden_sizes=[4, 8] if tiny else [64, 128, 256, 512],
        depths=[2, 2] if tiny else [2, 2, 2, 2],
        layer_type="basic",
    )
    config.num_labels = 10 if tiny else 1000
    model = _model(ResNetForImageClassification, config, dtype, seed, wide, device)
    return Instance(lambda x: model(pixel_values=x).logits, (_pixels((2, 3, size, size), dtype, seed, wide, device),))


def gpt2(dtype: torch.dtype, seed: int, wide: bool = False, tiny: bool = False, device: str = "cpu") -> Instance:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=64 if tiny else 8192,
        n_embd=32 if tiny else 256,
        n_layer=1 if tiny else 4,
        n_head=4,
        n_positions=256,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = _model(GPT2LMHeadModel, config, dtype, seed, wide, device)
    return Instance(
        lambda ids: model(input_ids=ids, use_cache=False).logits,
        (_tokens(config.vocab_size, 2, 6 if tiny else 128, seed, device),),
    )


CASES = (
    Case("llama-prefill", llama_prefill),
    Case("llama-decode", llama_decode),
    Case("bert", bert),
    Case("vit", vit),
    Case("resnet18", resnet18),
    Case("gpt2", gpt2),
)


def case(name: str) -> Case:
    """The case of that name; ValueError naming the nearest otherwise."""
    import difflib

    for c in CASES:
        if c.name == name:
            return c
    near = difflib.get_close_matches(name, [c.name for c in CASES], n=1, cutoff=0)[0]
    raise ValueError(f"no demo model {name!r}; nearest: {near!r}")
