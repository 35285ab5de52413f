"""Convolution, which a library plan runs."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import Declined, Emitter, Val, is_float
from . import lower

aten = torch.ops.aten


@lower(aten.convolution.default)
def convolution(
    e: Emitter,
    x: Val,
    weight: Val,
    bias: Val | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Val:
    if not is_float(x.dtype):
        raise Declined("convolution of integers")
    operands = [x, weight] if bias is None else [x, weight, bias]
    return e.emit(
        "convolution",
        *operands,
        stride=list(stride),
        padding=list(padding),
        dilation=list(dilation),
        transposed=transposed,
        output_padding=list(output_padding),
        groups=groups,
    )
