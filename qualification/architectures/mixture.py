"""Mixtures of experts."""

from __future__ import annotations

import functools

from qualification.architectures.sequence_to_sequence import pair
from qualification.architectures.text import decoder

mixture = functools.partial(decoder, family="mixture")

ARCHITECTURES = (
    mixture("mixtral", "MixtralForCausalLM", "MixtralConfig"),
    mixture("qwen2-moe", "Qwen2MoeForCausalLM", "Qwen2MoeConfig", shared_expert_intermediate_size=96),
    mixture("qwen3-moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig"),
    mixture("olmoe", "OlmoeForCausalLM", "OlmoeConfig"),
    mixture("gpt-oss", "GptOssForCausalLM", "GptOssConfig", sliding_window=8),
    mixture("granitemoe", "GraniteMoeForCausalLM", "GraniteMoeConfig"),
    mixture(
        "deepseek-v3",
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        num_key_value_heads=4,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        kv_lora_rank=32,
        q_lora_rank=32,
        qk_rope_head_dim=16,
        qk_nope_head_dim=16,
        v_head_dim=16,
        first_k_dense_replace=1,
    ),
    pair(
        "switch-transformers",
        "SwitchTransformersForConditionalGeneration",
        "SwitchTransformersConfig",
        family="mixture",
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        expert_capacity=16,
    ),
)
