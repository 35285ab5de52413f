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


def large(name: str, model: str, config: str, **sizes: Any) -> Architecture:
    """Of images of 64 pixels, which convolutions halve several times."""
    return seeing(name, model, config, inputs=functools.partial(pixels, size=64), **sizes)


def crowded(name: str, model: str, config: str, **sizes: Any) -> Architecture:
    """Of many such images: the last convolutions leave one or four places of each, and the gradient of a batch norm of
    two or eight numbers is what is left where nearly all of it cancels."""
    count = 32

    def images(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
        return {"pixel_values": draw.normal(count, 3, 64, 64)}

    def labels(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
        return {"labels": torch.arange(count) % 2}

    return seeing(name, model, config, inputs=images, labels=labels, **sizes)


def _backbone() -> Any:
    return small("Dinov2Config", out_indices=[1, 2], reshape_hidden_states=False)


_WINDOWS: dict[str, Any] = {
    "patch_size": 4,
    "embed_dim": 32,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
    "drop_path_rate": 0.0,
}
_TWO_STAGES: dict[str, Any] = {"hidden_sizes": [32, 64], "depths": [1, 2]}
_CONVNEXT: dict[str, Any] = {"patch_size": 4, "num_stages": 2, **_TWO_STAGES}
_FOUR_STAGES: dict[str, Any] = {"image_size": 64, "depths": [1, 1, 1, 1]}

ARCHITECTURES = (
    seeing("vit", "ViTForImageClassification", "ViTConfig"),
    seeing("deit", "DeiTForImageClassification", "DeiTConfig"),
    seeing("beit", "BeitForImageClassification", "BeitConfig", use_relative_position_bias=True, drop_path_rate=0.0),
    seeing("dinov2", "Dinov2ForImageClassification", "Dinov2Config"),
    seeing("swin", "SwinForImageClassification", "SwinConfig", **_WINDOWS),
    seeing("swinv2", "Swinv2ForImageClassification", "Swinv2Config", **_WINDOWS),
    seeing("convnext", "ConvNextForImageClassification", "ConvNextConfig", layer_scale_init_value=0.1, **_CONVNEXT),
    seeing("convnextv2", "ConvNextV2ForImageClassification", "ConvNextV2Config", **_CONVNEXT),
    large("resnet", "ResNetForImageClassification", "ResNetConfig", embedding_size=32, **_TWO_STAGES),
    large("regnet", "RegNetForImageClassification", "RegNetConfig", embedding_size=32, groups_width=16, **_TWO_STAGES),
    crowded("mobilenet-v2", "MobileNetV2ForImageClassification", "MobileNetV2Config", image_size=64),
    large(
        "mobilevit",
        "MobileViTForImageClassification",
        "MobileViTConfig",
        image_size=64,
        patch_size=2,
        hidden_sizes=[32, 48, 64],
        neck_hidden_sizes=[8, 16, 16, 32, 32, 48, 64],
    ),
    large(
        "segformer",
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
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
    large(
        "poolformer",
        "PoolFormerForImageClassification",
        "PoolFormerConfig",
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 32, 64],
    ),
    large(
        "pvt",
        "PvtForImageClassification",
        "PvtConfig",
        hidden_sizes=[16, 32, 40, 64],
        num_attention_heads=[1, 2, 5, 4],
        **_FOUR_STAGES,
    ),
    large(
        "efficientnet",
        "EfficientNetForImageClassification",
        "EfficientNetConfig",
        image_size=64,
        width_coefficient=0.5,
        depth_coefficient=0.5,
        hidden_dim=640,
    ),
    crowded(
        "levit",
        "LevitForImageClassification",
        "LevitConfig",
        image_size=64,
        patch_size=16,
        hidden_sizes=[32, 48, 64],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    large(
        "cvt",
        "CvtForImageClassification",
        "CvtConfig",
        embed_dim=[16, 32, 64],
        num_heads=[1, 2, 4],
        depth=[1, 2, 3],
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
    large(
        "swiftformer",
        "SwiftFormerForImageClassification",
        "SwiftFormerConfig",
        embed_dims=[16, 32, 32, 64],
        **_FOUR_STAGES,
    ),
    large(
        "bit",
        "BitForImageClassification",
        "BitConfig",
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
