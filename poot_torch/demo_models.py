"""The demo's models: transformers architectures from their configs, with random weights.

Each case builds an `Instance`: a callable that takes tensors only, its arguments, and `reset()`, which puts
mutable state (a static key-value cache) back so that every call computes the same step. Of a model in training the
callable gives the loss, and a step is the loss with the gradients of `parameters`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

Shape = Mapping[str, Any]


@dataclasses.dataclass
class Instance:
    fn: Callable[..., torch.Tensor]
    args: tuple[torch.Tensor, ...]
    reset: Callable[[], None] = lambda: None
    parameters: tuple[torch.nn.Parameter, ...] = ()

    def __call__(self) -> torch.Tensor:
        self.reset()
        return self.fn(*self.args)

    def step(self, fn: Callable[..., torch.Tensor]) -> Callable[..., Any]:
        """One step by `fn`, which is the instance's own or compiled from it: `fn` itself, or in training a function
        of the same arguments that returns (loss, *gradients), whatever the grad mode around it."""
        if not self.parameters:
            return fn

        def forward_and_backward(*args: torch.Tensor) -> tuple[torch.Tensor, ...]:
            with torch.enable_grad():
                loss = fn(*args)
                return loss.detach(), *torch.autograd.grad(loss, self.parameters)

        return forward_and_backward


@dataclasses.dataclass(frozen=True)
class Variant:
    """How a model is built: equal seeds give equal weights and inputs."""

    dtype: torch.dtype
    seed: int
    wide: bool  # values rounded to dtype, computed in float64: the reference
    device: str

    def model(self, cls: Callable[[Any], torch.nn.Module], config: Any) -> torch.nn.Module:
        torch.manual_seed(self.seed)
        with torch.device(self.device):
            model = cls(config).eval()
        # Random initialisation leaves norms at 1 and biases at 0; real checkpoints do not.
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() == 1:
                    p.add_(torch.randn_like(p) * 0.1)
        return (model.to(self.dtype).double() if self.wide else model.to(self.dtype)).to(self.device)

    def tokens(self, vocab: int, batch: int, length: int, offset: int = 0) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed + offset)
        return torch.randint(0, vocab, (batch, length), generator=generator).to(self.device)

    def pixels(self, batch: int, size: int) -> torch.Tensor:
        x = torch.randn((batch, 3, size, size), generator=torch.Generator().manual_seed(self.seed)).to(self.dtype)
        return (x.double() if self.wide else x).to(self.device)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    builder: Callable[[Variant, Shape], Instance]
    shape: Shape
    tiny: Shape = dataclasses.field(default_factory=dict)  # the same structure with one layer, for interpreters

    def build(
        self, dtype: torch.dtype, seed: int, wide: bool = False, tiny: bool = False, device: str = "cpu"
    ) -> Instance:
        shape = {**self.shape, **self.tiny} if tiny else self.shape
        return self.builder(Variant(dtype, seed, wide, device), shape)


def _llama(v: Variant, shape: Shape) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return v.model(LlamaForCausalLM, LlamaConfig(max_position_embeddings=shape["cache"], **shape["config"]))


def llama_prefill(v: Variant, shape: Shape) -> Instance:
    model = _llama(v, shape)
    tokens = v.tokens(model.config.vocab_size, 1, shape["tokens"])
    return Instance(lambda ids: model(input_ids=ids, use_cache=False).logits, (tokens,))


def llama_decode(v: Variant, shape: Shape) -> Instance:
    """One token against a static cache of shape["cache"] positions, a prefix filled by an eager prefill."""
    from transformers import StaticCache

    model = _llama(v, shape)
    vocab, filled = model.config.vocab_size, shape["filled"]
    cache: Any = StaticCache(config=model.config, max_cache_len=shape["cache"])
    with torch.no_grad():
        model(input_ids=v.tokens(vocab, 1, filled), past_key_values=cache, use_cache=True)

    def step(ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return model(input_ids=ids, position_ids=position, past_key_values=cache, use_cache=True).logits

    def reset() -> None:
        for layer in cache.layers:
            if hasattr(layer, "cumulative_length"):  # transformers 4 tells the position by argument instead
                layer.cumulative_length.fill_(filled)

    return Instance(step, (v.tokens(vocab, 1, 1, offset=1), torch.tensor([[filled]], device=v.device)), reset)


def bert(v: Variant, shape: Shape) -> Instance:
    from transformers import BertConfig, BertModel

    model = v.model(BertModel, BertConfig(**shape["config"]))
    batch, length = shape["batch"], shape["tokens"]
    mask = torch.ones(batch, length, dtype=torch.long, device=v.device)
    if batch > 1:
        mask[1, length - length // 4 :] = 0
        mask[-1, length // 2 :] = 0
    return Instance(
        lambda ids, m: model(input_ids=ids, attention_mask=m).last_hidden_state,
        (v.tokens(shape["config"]["vocab_size"], batch, length), mask),
    )


def vit(v: Variant, shape: Shape) -> Instance:
    from transformers import ViTConfig, ViTModel

    model = v.model(ViTModel, ViTConfig(patch_size=16, **shape["config"]))
    pixels = v.pixels(shape["batch"], shape["config"]["image_size"])
    return Instance(lambda x: model(pixel_values=x).last_hidden_state, (pixels,))


def resnet(v: Variant, shape: Shape) -> Instance:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(**shape["config"])
    config.num_labels = shape["labels"]
    model = v.model(ResNetForImageClassification, config)
    return Instance(lambda x: model(pixel_values=x).logits, (v.pixels(shape["batch"], shape["size"]),))


def _gpt2(v: Variant, shape: Shape) -> tuple[Any, torch.Tensor]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(bos_token_id=0, eos_token_id=0, **shape["config"])
    return v.model(GPT2LMHeadModel, config), v.tokens(config.vocab_size, shape["batch"], shape["tokens"])


def gpt2(v: Variant, shape: Shape) -> Instance:
    model, tokens = _gpt2(v, shape)
    return Instance(lambda ids: model(input_ids=ids, use_cache=False).logits, (tokens,))


def gpt2_training(v: Variant, shape: Shape) -> Instance:
    """Without dropout, so that every backend computes the same step."""
    model, tokens = _gpt2(v, shape)
    model.loss_type = "ForCausalLM"  # or transformers warns through a logger, which breaks the graph in two
    return Instance(
        lambda ids: model(input_ids=ids, labels=ids, use_cache=False).loss,
        (tokens,),
        parameters=tuple(model.parameters()),
    )


def _llama_config(vocab: int, hidden: int, inner: int, layers: int, heads: int, kv_heads: int) -> dict[str, Any]:
    return {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
    }


def _encoder_config(hidden: int, layers: int, heads: int, inner: int, **more: Any) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        **more,
    }


def _resnet_config(embedding: int, widths: list[int], depths: list[int], layer: str) -> dict[str, Any]:
    return {"embedding_size": embedding, "hidden_sizes": widths, "depths": depths, "layer_type": layer}


_LLAMA = {"config": _llama_config(8192, 512, 1408, 4, 8, 4), "tokens": 128, "filled": 256, "cache": 1024}
_LLAMA_TINY = {"config": _llama_config(64, 32, 48, 1, 4, 2), "tokens": 6, "filled": 4, "cache": 16}
_LLAMA_FULL = {"config": _llama_config(8192, 1024, 2816, 8, 16, 4), "tokens": 128, "filled": 256, "cache": 2048}

CASES = (
    Case("llama-prefill", llama_prefill, _LLAMA, _LLAMA_TINY),
    Case("llama-decode", llama_decode, _LLAMA, _LLAMA_TINY),
    Case(
        "bert",
        bert,
        {"config": _encoder_config(256, 4, 4, 1024, vocab_size=8192), "batch": 4, "tokens": 128},
        {"config": _encoder_config(32, 1, 4, 48, vocab_size=64), "batch": 2, "tokens": 6},
    ),
    Case(
        "vit",
        vit,
        {"config": _encoder_config(256, 4, 4, 1024, image_size=224), "batch": 2},
        {"config": _encoder_config(32, 1, 4, 48, image_size=32)},
    ),
    Case(
        "resnet18",
        resnet,
        {
            "config": _resnet_config(64, [64, 128, 256, 512], [2, 2, 2, 2], "basic"),
            "labels": 1000,
            "batch": 2,
            "size": 224,
        },
        {"config": _resnet_config(4, [4, 8], [2, 2], "basic"), "labels": 10, "size": 32},
    ),
    Case(
        "gpt2",
        gpt2,
        {
            "config": {"vocab_size": 8192, "n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 256},
            "batch": 2,
            "tokens": 128,
        },
        {
            "config": {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 256},
            "tokens": 6,
        },
    ),
)

# Sizes in use, batch 1: benchmarks only.
FULL_SIZE_CASES = (
    Case("llama-8x1024-prefill", llama_prefill, _LLAMA_FULL),
    Case("llama-8x1024-decode", llama_decode, _LLAMA_FULL),
    Case(
        "bert-base", bert, {"config": _encoder_config(768, 12, 12, 3072, vocab_size=30522), "batch": 1, "tokens": 128}
    ),
    Case("vit-base", vit, {"config": _encoder_config(768, 12, 12, 3072, image_size=224), "batch": 1}),
    Case(
        "resnet50",
        resnet,
        {
            "config": _resnet_config(64, [256, 512, 1024, 2048], [3, 4, 6, 3], "bottleneck"),
            "labels": 1000,
            "batch": 1,
            "size": 224,
        },
    ),
)

_LLAMA_1B = {"config": _llama_config(128256, 2048, 8192, 16, 32, 8), "tokens": 1024, "filled": 512, "cache": 1024}

# Sizes in use on a GPU: benchmarks only.
GPU_CASES = (
    Case("llama-1b-prefill", llama_prefill, _LLAMA_1B),
    Case("llama-1b-decode", llama_decode, _LLAMA_1B),
    Case(
        "bert-base-32",
        bert,
        {"config": _encoder_config(768, 12, 12, 3072, vocab_size=30522), "batch": 32, "tokens": 128},
    ),
    Case(
        "resnet50-32",
        resnet,
        {
            "config": _resnet_config(64, [256, 512, 1024, 2048], [3, 4, 6, 3], "bottleneck"),
            "labels": 1000,
            "batch": 32,
            "size": 224,
        },
    ),
    Case(
        "gpt2-training-8",
        gpt2_training,
        {
            "config": {"vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024},
            "batch": 8,
            "tokens": 1024,
        },
        {
            "config": {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 256},
            "batch": 2,
            "tokens": 6,
        },
    ),
)


def case(name: str) -> Case:
    """The case of that name; ValueError naming the nearest otherwise."""
    import difflib

    known = {c.name: c for c in CASES + FULL_SIZE_CASES + GPU_CASES}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0)[0]
    raise ValueError(f"no demo model {name!r}; nearest: {near!r}")
