"""Audio: speech encoders, recognition, spectrograms, codecs."""

from __future__ import annotations

import functools
from typing import Any

import torch

from qualification.architectures import BATCH, Architecture, Draw, Inputs, small

_CONVOLUTIONS = {
    "conv_dim": [32, 32, 32],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 2],
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "layerdrop": 0.0,
    "apply_spec_augment": False,
    "mask_time_prob": 0.0,
}


def wave(draw: Draw, config: Any, length: int = 800) -> dict[str, torch.Tensor]:
    return {"input_values": draw.normal(BATCH, length)}


def channel(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_values": draw.normal(BATCH, 1, 640)}


def spectrogram(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_values": draw.normal(BATCH, 48, 32)}


def features(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_features": draw.normal(BATCH, 40, 160)}


def speech_to_text(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_features": draw.normal(BATCH, 48, 80), "decoder_input_ids": draw.tokens(11)}


def whisper(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_features": draw.normal(BATCH, 80, 40), "decoder_input_ids": draw.tokens(11)}


def moonshine(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"input_values": draw.normal(BATCH, 2000), "decoder_input_ids": draw.tokens(11)}


def targets(draw: Draw, config: Any) -> dict[str, torch.Tensor]:
    return {"labels": draw.tokens(11)}


def hearing(
    name: str, model: str, config: str, inputs: Inputs = wave, labels: Inputs | None = None, **sizes: Any
) -> Architecture:
    return Architecture(name, "audio", model, functools.partial(small, config, **sizes), inputs, labels)


ARCHITECTURES = (
    hearing("wav2vec2", "Wav2Vec2Model", "Wav2Vec2Config", **_CONVOLUTIONS),
    hearing("hubert", "HubertModel", "HubertConfig", **_CONVOLUTIONS),
    hearing("wavlm", "WavLMModel", "WavLMConfig", num_buckets=32, max_bucket_distance=64, **_CONVOLUTIONS),
    hearing("unispeech-sat", "UniSpeechSatModel", "UniSpeechSatConfig", **_CONVOLUTIONS),
    hearing("sew", "SEWModel", "SEWConfig", **_CONVOLUTIONS),
    hearing(
        "data2vec-audio",
        "Data2VecAudioModel",
        "Data2VecAudioConfig",
        **{k: v for k, v in _CONVOLUTIONS.items() if k != "apply_spec_augment"},
    ),
    hearing(
        "wav2vec2-bert",
        "Wav2Vec2BertModel",
        "Wav2Vec2BertConfig",
        inputs=features,
        layerdrop=0.0,
        apply_spec_augment=False,
    ),
    hearing(
        "wav2vec2-conformer",
        "Wav2Vec2ConformerModel",
        "Wav2Vec2ConformerConfig",
        position_embeddings_type="rotary",
        **_CONVOLUTIONS,
    ),
    hearing(
        "audio-spectrogram-transformer",
        "ASTForAudioClassification",
        "ASTConfig",
        inputs=spectrogram,
        max_length=48,
        num_mel_bins=32,
        frequency_stride=6,
        time_stride=6,
    ),
    hearing(
        "whisper",
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        inputs=whisper,
        labels=targets,
        max_source_positions=20,
        max_target_positions=32,
        begin_suppress_tokens=None,
    ),
    hearing(
        "speech-to-text",
        "Speech2TextForConditionalGeneration",
        "Speech2TextConfig",
        inputs=speech_to_text,
        labels=targets,
        conv_channels=32,
        max_source_positions=64,
        max_target_positions=32,
    ),
    hearing(
        "moonshine",
        "MoonshineForConditionalGeneration",
        "MoonshineConfig",
        inputs=moonshine,
        labels=targets,
        encoder_num_hidden_layers=2,
        decoder_num_hidden_layers=2,
        encoder_num_attention_heads=4,
        decoder_num_attention_heads=4,
    ),
    hearing(
        "encodec",
        "EncodecModel",
        "EncodecConfig",
        inputs=channel,
        hidden_size=32,
        num_filters=8,
        upsampling_ratios=[4, 2],
        codebook_size=64,
        sampling_rate=24000,
    ),
    hearing(
        "dac",
        "DacModel",
        "DacConfig",
        inputs=channel,
        encoder_hidden_size=16,
        decoder_hidden_size=32,
        downsampling_ratios=[2, 4],
        upsampling_ratios=[4, 2],
        n_codebooks=3,
        codebook_size=64,
    ),
)
