"""The decomposition table: which ATen operators are split before they reach the importer.

Operators that have a lowering stay whole, since a lowering knows how eager rounds. Decomposed are
the pointwise backward formulas and rare composites, whose torch._decomp versions compute in opmath
and round once, as eager's kernels do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import (
    adaptive_averages,
    antialiased,
    attention_training,
    embedding_bags,
    own_decompositions,
    random_layouts,
    sampling,
    unpooling,
)

_NAMES = (
    # losses
    "nll_loss_forward",
    "nll_loss_backward",
    "mse_loss",
    "mse_loss_backward",
    "smooth_l1_loss",
    "smooth_l1_loss_backward",
    "huber_loss",
    "huber_loss_backward",
    "binary_cross_entropy",
    "binary_cross_entropy_backward",
    "soft_margin_loss",
    "log_sigmoid_backward",
    "binary_cross_entropy_with_logits",
    "multi_margin_loss",
    "nll_loss2d_forward",
    "nll_loss2d_backward",
    # pointwise backward
    "glu_backward",
    "logit_backward",
    "soft_margin_loss_backward",
    "_prelu_kernel_backward",
    "gelu_backward",
    "threshold_backward",
    "mish_backward",
    "hardswish_backward",
    "hardtanh_backward",
    "hardsigmoid_backward",
    "leaky_relu_backward",
    "elu_backward",
    "softplus_backward",
    "native_dropout_backward",
    # normalisation backward
    "native_group_norm_backward",
    "_fused_rms_norm_backward",
    # views backward
    "select_backward",
    "slice_backward",
    "diagonal_backward",
    "unfold_backward",
    "index_select_backward",
    "value_selecting_reduction_backward",
    # padding, windows and sampling through index tensors
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "im2col",
    "col2im",
    "upsample_linear1d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "grid_sampler_2d",
    "affine_grid_generator",
    "pixel_shuffle",
    "pixel_unshuffle",
    "channel_shuffle",
    "native_channel_shuffle",
    "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate",
    "isin",
    # composites
    "_chunk_cat",
    "_weight_norm_interface",
    "addr",
    "block_diag",
    "count_nonzero",
    "linalg_cross",
    "linspace",
    "logspace",
    "logaddexp",
    "mvlgamma",
    "nansum",
    "renorm",
    "rot90",
    "sinc",
    "special_entr",
    "special_log_ndtr",
    "nan_to_num",
    "logit",
    "glu",
    "std",
    "std_mean",
    "frac",
    "heaviside",
    "dist",
    "_euclidean_dist",
    "trace",
    "diag_embed",
    "new_full",
    "norm",
    "aminmax",
    "hardshrink",
    "softshrink",
    "_prelu_kernel",
    "rrelu_with_noise_functional",
    "rrelu_with_noise_backward",
    "_batch_norm_with_update_functional",
    "batch_norm_backward",
)


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """Decompositions by operator overload; made once a process."""
    import torch
    from torch._decomp import get_decompositions

    names = [n for n in _NAMES if hasattr(torch.ops.aten, n)]
    found = get_decompositions([getattr(torch.ops.aten, n) for n in names])
    found.update(own_decompositions.OWN)
    found.update(embedding_bags.OWN)
    found.update(adaptive_averages.OWN)
    found.update(antialiased.OWN)
    found.update(attention_training.OWN)
    found.update(unpooling.OWN)
    found.update(sampling.OWN)
    found.update(random_layouts.OWN)
    return found
