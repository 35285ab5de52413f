"""Architectures of transformers at small size, by configuration, with random weights.

Each is the library's own model class; only sizes are set here. `small` shrinks a configuration class by the names of
its fields; an entry overrides what its architecture calls otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any

import torch

BATCH, TOKENS, VOCABULARY, IMAGE = 2, 19, 320, 32

_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "projection_dim"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    "num_key_value_heads": 2,
    "head_dim": 16,
    "d_kv": 16,
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "hidden_dim", "d_inner"), 96),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "moe_intermediate_size"), 96),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    "image_size": IMAGE,
    "patch_size": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
    "use_cache": False,
    **dict.fromkeys(("num_experts", "num_local_experts"), 4),
    "num_experts_per_tok": 2,
}


def small(config: str, **sizes: Any) -> Any:
    """The configuration of that class with its usual fields shrunk, then `sizes`, of which a callable makes a
    part's configuration."""
    import transformers

    cls = getattr(transformers, config, None)
    if cls is None:
        raise ValueError(f"transformers {transformers.__version__} has no {config}")
    fields = {name for c in cls.__mro__ for name in getattr(c, "__annotations__", {})}
    parts = {k: v() if callable(v) else v for k, v in sizes.items()}
    return cls(**{k: v for k, v in _SIZES.items() if k in fields} | parts)


@dataclasses.dataclass
class Draw:
    """Arguments of a model, from one seed."""

    generator: torch.Generator

    def tokens(self, length: int = TOKENS, vocabulary: int = VOCABULARY, batch: int = BATCH) -> torch.Tensor:
        return torch.randint(3, vocabulary, (batch, length), generator=self.generator)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator)

    def pixels(self, size: int = IMAGE, channels: int = 3, batch: int = BATCH) -> torch.Tensor:
        return self.normal(batch, channels, size, size)

    def padded(self, length: int = TOKENS) -> torch.Tensor:
        """A mask whose last row ends early."""
        mask = torch.ones(BATCH, length, dtype=torch.int64)
        mask[-1, length - length // 3 :] = 0
        return mask


Inputs = Callable[[Draw, Any], dict[str, torch.Tensor]]


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str
    family: str
    model: str  # class in transformers
    config: Callable[[], Any]
    inputs: Inputs
    labels: Inputs | None = None  # arguments that make the model return a loss; without, that of all results' squares

    def build(self, seed: int) -> torch.nn.Module:
        """In float32 and eval mode. Norms and biases are moved away from 1 and 0, as in checkpoints."""
        import transformers

        torch.manual_seed(seed)
        model: torch.nn.Module = getattr(transformers, self.model)(self.config()).eval()
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() == 1:
                    p.add_(torch.randn_like(p) * 0.1)
        return model

    def arguments(self, model: Any, seed: int, labelled: bool = False) -> dict[str, torch.Tensor]:
        found = self.inputs(Draw(torch.Generator().manual_seed(seed)), model.config)
        if labelled and self.labels is not None:
            found |= self.labels(Draw(torch.Generator().manual_seed(seed + 1)), model.config)
        return found


FAMILIES = ("text", "sequence_to_sequence", "mixture", "state_space", "vision", "audio", "multimodal", "series")


@functools.cache
def architectures() -> dict[str, Architecture]:
    """By name; families take turns, so that a sweep cut short has seen all of them."""
    lists = [importlib.import_module(f"{__name__}.{f}").ARCHITECTURES for f in FAMILIES]
    found = [a for turn in itertools.zip_longest(*lists) for a in turn if a is not None]
    named = {a.name: a for a in found}
    if len(named) != len(found):
        raise ValueError("two architectures of one name")
    return named
