"""Time series and decisions."""

from __future__ import annotations

import functools
from typing import Any

import torch

from qualification.architectures import BATCH, Architecture, Draw, Inputs, small


def past(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"past_values": draw.normal(BATCH, 32, 3)}


def windows(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {
        "past_values": draw.normal(BATCH, 31),
        "past_time_features": draw.normal(BATCH, 31, 2),
        "past_observed_mask": torch.ones(BATCH, 31),
        "future_values": draw.normal(BATCH, 8),
        "future_time_features": draw.normal(BATCH, 8, 2),
    }


def episodes(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {
        "states": draw.normal(BATCH, 9, 17),
        "actions": draw.normal(BATCH, 9, 4),
        "rewards": draw.normal(BATCH, 9, 1),
        "returns_to_go": draw.normal(BATCH, 9, 1),
        "timesteps": torch.arange(9).repeat(BATCH, 1),
        "attention_mask": torch.ones(BATCH, 9, dtype=torch.int64),
    }


def series(name: str, model: str, config: str, inputs: Inputs, **sizes: Any) -> Architecture:
    return Architecture(name, "series", model, functools.partial(small, config, **sizes), inputs)


_WINDOWS = {
    "prediction_length": 8,
    "context_length": 24,
    "num_time_features": 2,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}

ARCHITECTURES = (
    series(
        "patchtst",
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        past,
        num_input_channels=3,
        patch_length=4,
        patch_stride=4,
        prediction_length=8,
    ),
    series(
        "patchtsmixer",
        "PatchTSMixerForPrediction",
        "PatchTSMixerConfig",
        past,
        num_input_channels=3,
        d_model=16,
        prediction_length=8,
    ),
    series("time-series-transformer", "TimeSeriesTransformerModel", "TimeSeriesTransformerConfig", windows, **_WINDOWS),
    series(
        "decision-transformer",
        "DecisionTransformerModel",
        "DecisionTransformerConfig",
        episodes,
        state_dim=17,
        act_dim=4,
        max_ep_len=64,
    ),
)
