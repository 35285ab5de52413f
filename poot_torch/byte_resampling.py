"""Bilinear and bicubic resampling of bytes as eager's kernels for the CPU do it, in integers.

The weights of one axis are computed in double precision, those that fall outside the image are added to the border's,
and all are rounded to 16 bits of one common precision. Each axis rounds to bytes again, the last axis first. PyTorch's
decomposition rounds the weights before it adds them, and computes them in single precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

F = torch.nn.functional
_A = -0.75
_MOST_PRECISE = 22


def _cubic(x: float) -> float:
    x = abs(x)
    if x < 1:
        return ((_A + 2) * x - (_A + 3)) * x * x + 1
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A if x < 2 else 0.0


def _linear(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


_FILTERS = {"bilinear": (2, _linear), "bicubic": (4, _cubic)}  # taps and their weights by distance


def _whole(v: float) -> int:
    """Nearest integer, halves away from zero."""
    return int(v - 0.5) if v < 0 else int(v + 0.5)


def _taps(
    mode: str, size: int, length: int, align: bool, scale: float | None
) -> tuple[list[list[int]], list[list[int]], int]:
    """(places, weights, bits after the point of these), a tap of each for every element of the result."""
    taps, weight_at = _FILTERS[mode]
    if align:
        ratio = (size - 1) / (length - 1) if length > 1 else 0.0
    else:
        ratio = 1.0 / scale if scale else size / length
    rows: list[dict[int, float]] = []
    largest = 0.0
    for i in range(length):
        at = ratio * i if align else ratio * (i + 0.5) - 0.5
        if mode == "bilinear":
            at = max(at, 0.0)
        low = min(math.floor(at), size - 1)
        part = min(max(at - low, 0.0), 1.0)
        row: dict[int, float] = {}
        for j in range(1 - taps // 2, taps // 2 + 1):
            place = min(max(low + j, 0), size - 1)
            row[place] = row.get(place, 0.0) + weight_at(j - part)
            largest = max(largest, row[place])
        rows.append(row)
    bits = next((p for p in range(_MOST_PRECISE) if int(0.5 + largest * 2 ** (p + 1)) >= 2**15), _MOST_PRECISE)
    spare = range(taps)
    places = [[*row, *(0 for _ in spare[len(row) :])] for row in rows]
    weights = [[*(_whole(w * 2**bits) for w in row.values()), *(0 for _ in spare[len(row) :])] for row in rows]
    return places, weights, bits


def _along(mode: str, x: Tensor, axis: int, length: int, align: bool, scale: float | None) -> Tensor:
    places, weights, bits = _taps(mode, x.shape[axis], length, align, scale)
    column = [-1 if i == axis else 1 for i in range(x.ndim)]
    total = None
    for k in range(len(places[0])):
        place = torch.tensor([row[k] for row in places], device=x.device)
        weight = torch.tensor([row[k] for row in weights], dtype=torch.int32, device=x.device)
        term = x.index_select(axis, place).to(torch.int32) * weight.reshape(column)
        total = term if total is None else total + term
    assert total is not None
    return ((total + (1 << (bits - 1))) >> bits).clamp(0, 255).to(torch.uint8)


def applies(x: Any, mode: Any, antialias: Any) -> bool:
    """Whether `interpolate` of x (a fake tensor) is what this file does."""
    if mode not in _FILTERS or antialias or not isinstance(x, torch.Tensor):
        return False
    return (
        x.dtype is torch.uint8 and x.ndim == 4 and x.device.type == "cpu" and all(isinstance(n, int) for n in x.shape)
    )


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "bicubic",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """As `torch.nn.functional.interpolate`, where `applies` holds."""
    scales: Sequence[float | None] = (None, None)
    if scale_factor is not None:
        factors = [scale_factor] * 2 if isinstance(scale_factor, (int, float)) else list(scale_factor)
        lengths = [math.floor(float(n) * f) for n, f in zip(input.shape[2:], factors, strict=True)]
        scales = (None, None) if recompute_scale_factor else factors
    else:
        assert size is not None
        lengths = [size] * 2 if isinstance(size, int) else list(size)
    x = input
    for axis in (3, 2):
        if lengths[axis - 2] != x.shape[axis]:
            x = _along(mode, x, axis, lengths[axis - 2], bool(align_corners), scales[axis - 2])
    return x.clone(memory_format=suggest_memory_format(input))
