"""Antialiased resampling, axis by axis: each element of the result is a weighted mean over a window of the operand,
whose length grows with the ratio of the sizes, with places and weights as eager's kernels for the CPU compute them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .emitter import opmath

aten = torch.ops.aten
OWN: dict[Any, Callable[..., Any]] = {}
Filter = Callable[[Tensor], Tensor]


def _triangle(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: Tensor) -> Tensor:
    a, x = -0.5, x.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0))


def _windows(
    size: int, length: int, align: bool, scale: float | None, width: int, weight: Filter, like: Tensor
) -> tuple[Tensor, Tensor]:
    """(places, weights) of shape [length, longest window]; `width` of the filter at ratio 1."""
    if align:
        ratio = (size - 1) / (length - 1) if length > 1 else 0.0
    else:
        ratio = 1.0 / scale if scale is not None and scale > 0 else size / length
    support = width * 0.5 * max(ratio, 1.0)
    steps = torch.arange(length, device=like.device).to(like.dtype)
    centre = (steps + 0.5) * ratio
    first = ((centre - support).double() + 0.5).to(torch.int64).clamp(min=0)
    end = ((centre + support).double() + 0.5).to(torch.int64).clamp(max=size)
    longest = math.ceil(support) * 2 + 1
    places = first.unsqueeze(1) + torch.arange(longest, device=like.device)
    inverse = 1.0 / ratio if ratio >= 1.0 else 1.0
    distance = (places - centre.unsqueeze(1)).double() + 0.5
    weights = torch.where(places < end.unsqueeze(1), weight(distance * inverse), 0)
    return places.clamp(max=size - 1), (weights / weights.sum(1, keepdim=True)).to(like.dtype)


def _generated(x: Tensor, *sizes: Any) -> bool:
    """Whether there are kernels; eager's for the CPU refuse 16-bit numbers."""
    wide = x.dtype in (torch.float32, torch.float64) or (x.is_floating_point() and x.device.type != "cpu")
    return wide and all(isinstance(s, int) and s > 0 for s in sizes)


def _forward(width: int, weight: Filter) -> Callable[..., Any]:
    def forward(x: Tensor, output_size: Sequence[int], align: bool, *scales: Any) -> Tensor:
        if not _generated(x, *x.shape[2:], *output_size):
            return NotImplemented
        wide = x.to(opmath(x.dtype))
        for axis in (3, 2):
            given = (scales or (None, None))[axis - 2]
            size, length = x.shape[axis], output_size[axis - 2]
            places, weights = _windows(size, length, align, given, width, weight, wide)
            column = weights if axis == 3 else weights.unsqueeze(2)
            each = wide[:, :, places] if axis == 2 else wide[:, :, :, places]
            wide = (each * column).sum(axis + 1)
        return wide.to(x.dtype)

    return forward


def _backward(width: int, weight: Filter) -> Callable[..., Any]:
    def backward(
        grad: Tensor, output_size: Sequence[int], input_size: Sequence[int], align: bool, *scales: Any
    ) -> Tensor:
        if not _generated(grad, *input_size[2:], *output_size):
            return NotImplemented
        wide = grad.to(opmath(grad.dtype))
        for axis in (2, 3):
            given = (scales or (None, None))[axis - 2]
            size, length = input_size[axis], output_size[axis - 2]
            places, weights = _windows(size, length, align, given, width, weight, wide)
            column = weights if axis == 3 else weights.unsqueeze(2)
            each = (wide.unsqueeze(axis + 1) * column).flatten(axis, axis + 1)
            base = wide.new_zeros([*wide.shape[:axis], size, *wide.shape[axis + 1 :]])
            wide = torch.index_add(base, axis, places.flatten(), each)
        return wide.to(grad.dtype)

    return backward


for _name, _width, _filter in (("bilinear", 2, _triangle), ("bicubic", 4, _cubic)):
    OWN[getattr(aten, f"_upsample_{_name}2d_aa").default] = _forward(_width, _filter)
    OWN[getattr(aten, f"_upsample_{_name}2d_aa_backward").default] = _backward(_width, _filter)
