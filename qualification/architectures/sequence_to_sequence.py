"""Encoder-decoders of text."""

from __future__ import annotations

import functools
from typing import Any

import torch

from qualification.architectures import Architecture, Draw, small


def both(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_ids": draw.tokens(), "attention_mask": draw.padded(), "decoder_input_ids": draw.tokens(11)}


def targets(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"labels": draw.tokens(11)}


def pair(name: str, model: str, config: str, family: str = "sequence_to_sequence", **sizes: Any) -> Architecture:
    return Architecture(name, family, model, functools.partial(small, config, **sizes), both, targets)


ARCHITECTURES = (
    pair("t5", "T5ForConditionalGeneration", "T5Config"),
    pair("bart", "BartForConditionalGeneration", "BartConfig"),
    pair("mbart", "MBartForConditionalGeneration", "MBartConfig"),
    pair("pegasus", "PegasusForConditionalGeneration", "PegasusConfig"),
    pair("marian", "MarianMTModel", "MarianConfig"),
    pair("blenderbot", "BlenderbotForConditionalGeneration", "BlenderbotConfig"),
    pair("m2m-100", "M2M100ForConditionalGeneration", "M2M100Config", encoder_layerdrop=0.0, decoder_layerdrop=0.0),
    pair("longt5", "LongT5ForConditionalGeneration", "LongT5Config", local_radius=7),
    pair(
        "prophetnet",
        "ProphetNetForConditionalGeneration",
        "ProphetNetConfig",
        num_encoder_layers=2,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
    ),
)
