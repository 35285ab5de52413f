"""The decomposition table: which ATen operators are split before they reach the importer.

Operators that have a lowering stay whole, since a lowering knows how eager rounds. Decomposed are
the pointwise backward formulas and rare composites, whose torch._decomp versions compute in opmath
and round once, as eager's kernels do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

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
    "log_sigmoid_forward",
    "log_sigmoid_backward",
    # pointwise backward
    "gelu_backward",
    "threshold_backward",
    "tanh_backward",
    "sigmoid_backward",
    "silu_backward",
    "mish_backward",
    "hardswish_backward",
    "hardtanh_backward",
    "hardsigmoid_backward",
    "leaky_relu_backward",
    "elu_backward",
    "softplus_backward",
    "native_dropout_backward",
    # normalisation backward
    "_softmax_backward_data",
    "_log_softmax_backward_data",
    "native_layer_norm_backward",
    "native_group_norm_backward",
    "native_batch_norm_backward",
    # views backward
    "select_backward",
    "slice_backward",
    # composites
    "nan_to_num",
    "logit",
    "glu",
    "std",
    "std_mean",
    "frac",
    "heaviside",
    "xlogy",
    "dist",
    "trace",
    "diag_embed",
    "new_full",
    "norm",
    "aminmax",
    "hardshrink",
    "softshrink",
    "_prelu_kernel",
    "rrelu_with_noise_functional",
)


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """Decompositions by operator overload; made once a process."""
    import torch
    from torch._decomp import get_decompositions

    names = [n for n in _NAMES if hasattr(torch.ops.aten, n)]
    return get_decompositions([getattr(torch.ops.aten, n) for n in names])
