"""Encoders and decoders of text."""

from __future__ import annotations

import functools
from typing import Any

import torch

from qualification.architectures import Architecture, Draw, small


def masked(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_ids": draw.tokens(), "attention_mask": draw.padded()}


def plain(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_ids": draw.tokens()}


def same_tokens(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"labels": draw.tokens()}


def sixteen(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    """Two for each of eight landmarks."""
    return {"input_ids": draw.tokens(16), "attention_mask": draw.padded(16)}


def sixteen_targets(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"labels": draw.tokens(16)}


def encoder(name: str, model: str, config: str, **sizes: Any) -> Architecture:
    return Architecture(name, "text", model, functools.partial(small, config, **sizes), masked, same_tokens)


def decoder(name: str, model: str, config: str, family: str = "text", **sizes: Any) -> Architecture:
    return Architecture(name, family, model, functools.partial(small, config, **sizes), plain, same_tokens)


ARCHITECTURES = (
    encoder("bert", "BertForMaskedLM", "BertConfig"),
    encoder("roberta", "RobertaForMaskedLM", "RobertaConfig"),
    encoder("albert", "AlbertForMaskedLM", "AlbertConfig"),
    encoder("electra", "ElectraForMaskedLM", "ElectraConfig"),
    encoder("distilbert", "DistilBertForMaskedLM", "DistilBertConfig"),
    encoder(
        "deberta-v2",
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
    ),
    encoder("mpnet", "MPNetForMaskedLM", "MPNetConfig"),
    encoder("fnet", "FNetForMaskedLM", "FNetConfig"),
    encoder("mobilebert", "MobileBertForMaskedLM", "MobileBertConfig", intra_bottleneck_size=64),
    encoder("squeezebert", "SqueezeBertForMaskedLM", "SqueezeBertConfig"),
    encoder(
        "modernbert", "ModernBertForMaskedLM", "ModernBertConfig", cls_token_id=1, sep_token_id=2, local_attention=8
    ),
    encoder("roformer", "RoFormerForMaskedLM", "RoFormerConfig"),
    Architecture(
        "nystromformer",
        "text",
        "NystromformerForMaskedLM",
        lambda: small("NystromformerConfig", num_landmarks=8, segment_means_seq_len=16),
        sixteen,
        sixteen_targets,
    ),
    encoder("big-bird", "BigBirdForMaskedLM", "BigBirdConfig", attention_type="original_full", sep_token_id=3),
    encoder("esm", "EsmForMaskedLM", "EsmConfig", mask_token_id=3),
    encoder("funnel", "FunnelForMaskedLM", "FunnelConfig", block_sizes=[1, 1], d_head=16),
    Architecture(
        "xlnet", "text", "XLNetLMHeadModel", lambda: small("XLNetConfig", use_mems_eval=False), plain, same_tokens
    ),
    decoder("gpt2", "GPT2LMHeadModel", "GPT2Config"),
    decoder(
        "gpt-neo",
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        attention_types=[[["global", "local"], 1]],
        window_size=8,
    ),
    decoder("gpt-neox", "GPTNeoXForCausalLM", "GPTNeoXConfig"),
    decoder("gptj", "GPTJForCausalLM", "GPTJConfig", rotary_dim=8),
    decoder("codegen", "CodeGenForCausalLM", "CodeGenConfig", rotary_dim=8),
    decoder("opt", "OPTForCausalLM", "OPTConfig"),
    decoder("bloom", "BloomForCausalLM", "BloomConfig"),
    decoder("falcon", "FalconForCausalLM", "FalconConfig", alibi=True),
    decoder("mpt", "MptForCausalLM", "MptConfig"),
    decoder("llama", "LlamaForCausalLM", "LlamaConfig"),
    decoder("mistral", "MistralForCausalLM", "MistralConfig", sliding_window=8),
    decoder("qwen2", "Qwen2ForCausalLM", "Qwen2Config"),
    decoder("qwen3", "Qwen3ForCausalLM", "Qwen3Config"),
    decoder("gemma", "GemmaForCausalLM", "GemmaConfig"),
    decoder("gemma2", "Gemma2ForCausalLM", "Gemma2Config", sliding_window=8, query_pre_attn_scalar=16),
    decoder("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", sliding_window=8, query_pre_attn_scalar=16),
    decoder("phi", "PhiForCausalLM", "PhiConfig"),
    decoder("phi3", "Phi3ForCausalLM", "Phi3Config"),
    decoder("olmo2", "Olmo2ForCausalLM", "Olmo2Config"),
    decoder("cohere", "CohereForCausalLM", "CohereConfig"),
    decoder("stablelm", "StableLmForCausalLM", "StableLmConfig"),
    decoder("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config"),
)
