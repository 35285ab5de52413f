"""Models of text together with images."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from qualification.architectures import BATCH, TOKENS, Architecture, Draw, Inputs, small
from qualification.architectures.text import same_tokens

_PATCHES = 16  # of an image of 32 pixels in patches of 8


def together(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_ids": draw.tokens(), "attention_mask": draw.padded(), "pixel_values": draw.pixels()}


def inline(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    """An image's tokens among the text's."""
    ids = draw.tokens(_PATCHES + 7)
    ids[:, 2 : 2 + _PATCHES] = config.image_token_id
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": draw.pixels()}


def prefixed(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    """As inline, with a row that ends early: of a mask without zeros transformers makes no mask at all in eager, and
    under Dynamo a causal one."""
    found = inline(draw, config)
    found["attention_mask"][-1, -2:] = 0
    return found


def boxes(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    corners = torch.randint(0, 500, (BATCH, TOKENS, 2), generator=draw.generator)
    return {"input_ids": draw.tokens(), "bbox": torch.cat((corners, corners + 100), -1)}


def regions(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {
        "input_ids": draw.tokens(),
        "visual_feats": draw.normal(BATCH, 5, 32),
        "visual_pos": draw.normal(BATCH, 5, 4),
    }


def embedded(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_ids": draw.tokens(), "visual_embeds": draw.normal(BATCH, 5, 32)}


def part(config: str, **sizes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: small(config, **sizes).to_dict()


def joint(
    name: str, model: str, config: str, inputs: Inputs = together, labels: Inputs | None = None, **sizes: Any
) -> Architecture:
    return Architecture(name, "multimodal", model, functools.partial(small, config, **sizes), inputs, labels)


ARCHITECTURES = (
    joint(
        "clip",
        "CLIPModel",
        "CLIPConfig",
        text_config=part("CLIPTextConfig"),
        vision_config=part("CLIPVisionConfig"),
    ),
    joint(
        "siglip",
        "SiglipModel",
        "SiglipConfig",
        text_config=part("SiglipTextConfig", projection_size=64),
        vision_config=part("SiglipVisionConfig"),
    ),
    joint(
        "blip",
        "BlipModel",
        "BlipConfig",
        text_config=part("BlipTextConfig", encoder_hidden_size=64),
        vision_config=part("BlipVisionConfig"),
        image_text_hidden_size=64,
    ),
    joint(
        "groupvit",
        "GroupViTModel",
        "GroupViTConfig",
        text_config=part("GroupViTTextConfig"),
        vision_config=part(
            "GroupViTVisionConfig", depths=[1, 1, 1], num_group_tokens=[8, 4, 0], num_output_groups=[8, 4, 4]
        ),
        projection_intermediate_dim=64,
    ),
    joint("vilt", "ViltModel", "ViltConfig", max_image_length=-1),
    joint(
        "lxmert",
        "LxmertModel",
        "LxmertConfig",
        inputs=regions,
        l_layers=1,
        x_layers=1,
        r_layers=1,
        visual_feat_dim=32,
    ),
    joint("visual-bert", "VisualBertModel", "VisualBertConfig", inputs=embedded, visual_embedding_dim=32),
    joint("layoutlm", "LayoutLMForMaskedLM", "LayoutLMConfig", inputs=boxes, labels=same_tokens),
    joint("git", "GitForCausalLM", "GitConfig", vision_config=part("GitVisionConfig")),
    joint(
        "llava",
        "LlavaForConditionalGeneration",
        "LlavaConfig",
        inputs=inline,
        text_config=part("LlamaConfig"),
        vision_config=part("CLIPVisionConfig"),
        image_token_index=5,
        image_seq_length=_PATCHES,
        vision_feature_layer=-1,
    ),
    joint(
        "paligemma",
        "PaliGemmaForConditionalGeneration",
        "PaliGemmaConfig",
        inputs=prefixed,
        text_config=part("GemmaConfig"),
        vision_config=part("SiglipVisionConfig", vision_use_head=False),
        image_token_index=5,
        projection_dim=64,
        hidden_size=64,
    ),
)
