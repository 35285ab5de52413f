"""Vision: transformers, convolutional networks, detection, depth, video."""

from __future__ import annotations

import functools
from typing import Any

import torch

from qualification.architectures import BATCH, IMAGE, Architecture, Draw, Inputs, small


def pixels(draw: Draw, config: Any, size: int = IMAGE) -> dict[str, torch.Tensor]:
    return {"pixel_values": draw.pixels(size)}


def frames(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"pixel_values": draw.normal(BATCH, 4, 3, IMAGE, IMAGE)}


def classes(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"labels": torch.arange(BATCH) % 2}


def seeing(
    name: str, model: str, config: str, inputs: Inputs = pixels, labels: Inputs | None = None, **sizes: Any
) -> Architecture:
    labels = classes if labels is None and model.endswith("Classification") else labels
    return Architecture(name, "vision", model, functools.partial(small, config, **sizes), inputs, labels)


def at(size: int) -> Inputs:
    return functools.partial(pixels, size=size)


def _backbone() -> Any:
    return small("Dinov2Config", out_indices=[1, 2], reshape_hidden_states=False)


ARCHITECTURES = (
    seeing("vit", "ViTForImageClassification", "ViTConfig"),
    seeing("deit", "DeiTForImageClassification", "DeiTConfig"),
    seeing("beit", "BeitForImageClassification", "BeitConfig", use_relative_position_bias=True, drop_path_rate=0.0),
    seeing("dinov2", "Dinov2ForImageClassification", "Dinov2Config"),
    seeing(
        "swin",
        "SwinForImageClassification",
        "SwinConfig",
        patch_size=4,
        embed_dim=32,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
    ),
    seeing(
        "swinv2",
        "Swinv2ForImageClassification",
        "Swinv2Config",
        patch_size=4,
        embed_dim=32,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
    ),
    seeing(
        "convnext",
        "ConvNextForImageClassification",
        "ConvNextConfig",
        patch_size=4,
        num_stages=2,
        hidden_sizes=[32, 64],
        depths=[1, 2],
        layer_scale_init_value=0.1,
    ),
    seeing(
        "convnextv2",
        "ConvNextV2ForImageClassification",
        "ConvNextV2Config",
        patch_size=4,
        num_stages=2,
        hidden_sizes=[32, 64],
        depths=[1, 2],
    ),
    seeing(
        "resnet",
        "ResNetForImageClassification",
        "ResNetConfig",
        inputs=at(64),
        embedding_size=32,
        hidden_sizes=[32, 64],
        depths=[1, 2],
    ),
    seeing(
        "regnet",
        "RegNetForImageClassification",
        "RegNetConfig",
        inputs=at(64),
        embedding_size=32,
        hidden_sizes=[32, 64],
        depths=[1, 2],
        groups_width=16,
    ),
    seeing("mobilenet-v2", "MobileNetV2ForImageClassification", "MobileNetV2Config", inputs=at(64), image_size=64),
    seeing(
        "mobilevit",
        "MobileViTForImageClassification",
        "MobileViTConfig",
        inputs=at(64),
        image_size=64,
        patch_size=2,
        hidden_sizes=[32, 48, 64],
        neck_hidden_sizes=[8, 16, 16, 32, 32, 48, 64],
    ),
    seeing(
        "segformer",
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        inputs=at(64),
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[4, 1],
        hidden_sizes=[32, 64],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[2, 4],
        mlp_ratios=[2, 2],
        decoder_hidden_size=32,
        drop_path_rate=0.0,
    ),
    seeing(
        "poolformer",
        "PoolFormerForImageClassification",
        "PoolFormerConfig",
        inputs=at(64),
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 32, 64],
    ),
    seeing(
        "pvt",
        "PvtForImageClassification",
        "PvtConfig",
        inputs=at(64),
        image_size=64,
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 40, 64],
        num_attention_heads=[1, 2, 5, 4],
    ),
    seeing(
        "efficientnet",
        "EfficientNetForImageClassification",
        "EfficientNetConfig",
        inputs=at(64),
        image_size=64,
        width_coefficient=0.5,
        depth_coefficient=0.5,
        hidden_dim=64,
    ),
    seeing(
        "levit",
        "LevitForImageClassification",
        "LevitConfig",
        inputs=at(64),
        image_size=64,
        patch_size=16,
        hidden_sizes=[32, 48, 64],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    seeing(
        "cvt",
        "CvtForImageClassification",
        "CvtConfig",
        inputs=at(64),
        embed_dim=[16, 32, 64],
        num_heads=[1, 2, 4],
        depth=[1, 1, 1],
        drop_path_rate=[0.0, 0.0, 0.0],
    ),
    seeing(
        "focalnet",
        "FocalNetForImageClassification",
        "FocalNetConfig",
        patch_size=4,
        embed_dim=16,
        hidden_sizes=[16, 32],
        depths=[1, 1],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
        drop_path_rate=0.0,
    ),
    seeing(
        "swiftformer",
        "SwiftFormerForImageClassification",
        "SwiftFormerConfig",
        inputs=at(64),
        image_size=64,
        depths=[1, 1, 1, 1],
        embed_dims=[16, 32, 32, 64],
    ),
    seeing(
        "bit",
        "BitForImageClassification",
        "BitConfig",
        inputs=at(64),
        embedding_size=32,
        hidden_sizes=[32, 64],
        depths=[1, 1],
        num_groups=8,
    ),
    seeing("yolos", "YolosForObjectDetection", "YolosConfig", image_size=[IMAGE, IMAGE], num_detection_tokens=5),
    seeing(
        "depth-anything",
        "DepthAnythingForDepthEstimation",
        "DepthAnythingConfig",
        backbone_config=_backbone,
        reassemble_hidden_size=64,
        reassemble_factors=[2, 1],
        neck_hidden_sizes=[16, 32],
        fusion_hidden_size=16,
        head_hidden_size=8,
    ),
    seeing("videomae", "VideoMAEForVideoClassification", "VideoMAEConfig", inputs=frames, num_frames=4),
    seeing("timesformer", "TimesformerForVideoClassification", "TimesformerConfig", inputs=frames, num_frames=4),
    seeing("vivit", "VivitForVideoClassification", "VivitConfig", inputs=frames, num_frames=4, tubelet_size=[2, 8, 8]),
)
