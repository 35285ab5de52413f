"""State-space and recurrent models of text, and hybrids with attention."""

from __future__ import annotations

import functools

from qualification.architectures.text import decoder

recurrent = functools.partial(decoder, family="state_space")

ARCHITECTURES = (
    recurrent("mamba", "MambaForCausalLM", "MambaConfig", state_size=8),
    recurrent("mamba2", "Mamba2ForCausalLM", "Mamba2Config", num_heads=8, state_size=16, n_groups=2, chunk_size=8),
    recurrent("falcon-mamba", "FalconMambaForCausalLM", "FalconMambaConfig", state_size=8),
    recurrent(
        "jamba",
        "JambaForCausalLM",
        "JambaConfig",
        use_mamba_kernels=False,
        mamba_d_state=8,
        mamba_dt_rank=8,
        attn_layer_period=2,
        attn_layer_offset=1,
    ),
    recurrent(
        "bamba",
        "BambaForCausalLM",
        "BambaConfig",
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_d_state=16,
        mamba_chunk_size=8,
        attn_layer_indices=[1],
    ),
    recurrent("rwkv", "RwkvForCausalLM", "RwkvConfig", context_length=64),
    recurrent(
        "recurrent-gemma",
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        num_hidden_layers=3,
        lru_width=64,
        attention_window_size=16,
    ),
    recurrent("lfm2", "Lfm2ForCausalLM", "Lfm2Config", layer_types=["conv", "full_attention"], block_multiple_of=32),
    recurrent("xlstm", "xLSTMForCausalLM", "xLSTMConfig", chunk_size=16, ffn_round_up_to_multiple_of=16),
)
