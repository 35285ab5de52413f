"""Convolution and pooling, which library plans run."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import Declined, Emitter, Val, is_float, opmath
from . import lower

aten = torch.ops.aten


def _pair(v: Any, default: list[int]) -> list[int]:
    v = [v] if isinstance(v, int) else list(v)
    if not v:
        return default
    return v * 2 if len(v) == 1 else v


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


@lower(aten.max_pool2d_with_indices.default)
def max_pool2d(
    e: Emitter,
    x: Val,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Val, Val]:
    kernel = _pair(kernel_size, [])
    plane = x if x.ndim == 4 else e.unsqueeze(x, 0)
    values, indices = e.emit_multi(
        "max_pool",
        plane,
        kernel=kernel,
        stride=_pair(stride, kernel),
        padding=_pair(padding, [0, 0]),
        dilation=_pair(dilation, [1, 1]),
        ceil=ceil_mode,
    )
    shape = e.symbols.dims(e.meta[0].shape)
    return e.reshape(values, shape), e.reshape(indices, shape)


@lower(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(e: Emitter, x: Val, output_size: Any) -> Val:
    """To a size that divides the plane: a mean over whole tiles."""
    (h, w), (oh, ow) = x.shape[-2:], output_size
    if not all(isinstance(v, int) for v in (h, w, oh, ow)) or h % oh or w % ow:
        raise Declined("adaptive pooling to a size that does not divide the plane")
    wide = e.cast(x, opmath(x.dtype))
    tiles = e.reshape(wide, (*x.shape[:-2], oh, h // oh, ow, w // ow))
    n = tiles.ndim
    return e.cast(e.mean(tiles, [n - 3, n - 1], False), x.dtype)


@lower(aten.avg_pool2d.default)
def avg_pool2d(
    e: Emitter,
    x: Val,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Val:
    """Windows that tile the plane: a mean over whole tiles."""
    kernel = _pair(kernel_size, [])
    h, w = x.shape[-2:]
    tiled = _pair(stride, kernel) == kernel and _pair(padding, [0, 0]) == [0, 0]
    if not tiled or divisor_override or not isinstance(h, int) or not isinstance(w, int):
        raise Declined("average pooling over overlapping or padded windows")
    if h % kernel[0] or w % kernel[1]:
        raise Declined("average pooling over windows that do not divide the plane")
    return adaptive_avg_pool2d(e, x, (h // kernel[0], w // kernel[1]))
