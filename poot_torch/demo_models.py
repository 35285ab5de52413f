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
    # (dtype, seed, wide): equal seeds give equal weights and inputs; `wide` keeps the values rounded to dtype but
    # computes in float64, which makes the reference.
    build: Callable[[torch.dtype, int, bool], Instance]


def _model(cls, config, dtype: torch.dtype, seed: int, wide: bool):
    torch.manual_seed(seed)
    model = cls(config).eval()
    # Random initialisation leaves norms at 1 and biases at 0; real checkpoints do not.
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
    return model.to(dtype).double() if wide else model.to(dtype)


def _tokens(vocab: int, batch: int, length: int, seed: int) -> torch.Tensor:
    return torch.randint(0, vocab, (batch, length), generator=torch.Generator().manual_seed(seed))


def _pixels(shape: tuple[int, ...], dtype: torch.dtype, seed: int, wide: bool) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return x.double() if wide else x


def _llama(dtype: torch.dtype, seed: int, wide: bool, max_length: int = 1024):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=max_length,
    )
    return _model(LlamaForCausalLM, config, dtype, seed, wide)


def llama_prefill(dtype: torch.dtype, seed: int, wide: bool = False) -> Instance:
    model = _llama(dtype, seed, wide)
    return Instance(lambda ids: model(input_ids=ids, use_cache=False).logits, (_tokens(8192, 1, 128, seed),))


def llama_decode(dtype: torch.dtype, seed: int, wide: bool = False) -> Instance:
    """One token against a static cache of 1024 positions, 256 of them filled by an eager prefill."""
    from transformers import StaticCache

    model = _llama(dtype, seed, wide)
    filled = 256
    cache: Any = StaticCache(config=model.config, max_cache_len=1024)
    with torch.no_grad():
        model(input_ids=_tokens(8192, 1, filled, seed), past_key_values=cache, use_cache=True)
    token = _tokens(8192, 1, 1, seed + 1)

    def step(ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return model(input_ids=ids, position_ids=position, past_key_values=cache, use_cache=True).logits

    def reset() -> None:
        for layer in cache.layers:
            layer.cumulative_length.fill_(filled)

    return Instance(step, (token, torch.tensor([[filled]])), reset)


def bert(dtype: torch.dtype, seed: int, wide: bool = False) -> Instance:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=8192,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
    )
    model = _model(BertModel, config, dtype, seed, wide)
    mask = torch.ones(4, 128, dtype=torch.long)
    mask[1, 100:] = 0
    mask[3, 64:] = 0
    return Instance(
        lambda ids, m: model(input_ids=ids, attention_mask=m).last_hidden_state,
        (_tokens(8192, 4, 128, seed), mask),
    )


def vit(dtype: torch.dtype, seed: int, wide: bool = False) -> Instance:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        image_size=224,
        patch_size=16,
    )
    model = _model(ViTModel, config, dtype, seed, wide)
    return Instance(lambda x: model(pixel_values=x).last_hidden_state, (_pixels((2, 3, 224, 224), dtype, seed, wide),))


def resnet18(dtype: torch.dtype, seed: int, wide: bool = False) -> Instance:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=64,
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
    )
    config.num_labels = 1000
    model = _model(ResNetForImageClassification, config, dtype, seed, wide)
    return Instance(lambda x: model(pixel_values=x).logits, (_pixels((2, 3, 224, 224), dtype, seed, wide),))


def gpt2(dtype: torch.dtype, seed: int, wide: bool = False) -> Instance:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=8192, n_embd=256, n_layer=4, n_head=4, n_positions=256)
    model = _model(GPT2LMHeadModel, config, dtype, seed, wide)
    return Instance(lambda ids: model(input_ids=ids, use_cache=False).logits, (_tokens(8192, 2, 128, seed),))


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
