"""Averages over windows that do not tile the plane, forward and backward, axis by axis.

Window i of n over s positions runs from floor(i * s / n) to ceil((i + 1) * s / n), so that neighbours may overlap. Both
directions are sums of a few gathers with constant indices: of a window's positions, or of a position's windows.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .emitter import opmath

Rows = Sequence[Sequence[int]]


def _windows(size: int, count: int) -> list[range]:
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _covering(size: int, count: int) -> list[list[int]]:
    """By position, the windows that hold it."""
    windows = _windows(size, count)
    return [[i for i, w in enumerate(windows) if s in w] for s in range(size)]


def _sums(x: Tensor, axis: int, rows: Rows) -> Tensor:
    """By row, the sum of x at its positions along the axis."""
    parts = []
    for k in range(max(map(len, rows))):
        places = torch.tensor([r[k] if k < len(r) else 0 for r in rows], device=x.device)
        part = x.index_select(axis, places)
        if any(k >= len(r) for r in rows):
            held = torch.tensor([k < len(r) for r in rows], device=x.device)
            part = torch.where(held.reshape(-1, *[1] * (-axis - 1)), part, 0.0)
        parts.append(part)
    return functools.reduce(operator.add, parts)


def _counts(sizes: Sequence[int], outs: Sequence[int], like: Tensor) -> Tensor:
    """Elements of each window, over the last axes of `like`."""
    count = torch.ones((), dtype=like.dtype, device=like.device)
    for axis, (size, out) in enumerate(zip(sizes, outs, strict=True), -len(sizes)):
        lengths = torch.tensor([len(w) for w in _windows(size, out)], dtype=like.dtype, device=like.device)
        count = count * lengths.reshape(-1, *[1] * (-axis - 1))
    return count


def _tiled(sizes: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether a lowering takes it, or nobody can: sizes that are not known, or empty."""
    pairs = list(zip(sizes, outs, strict=True))
    if any(not isinstance(s, int) or not isinstance(o, int) or s == 0 or o == 0 for s, o in pairs):
        return True
    return all(s % o == 0 for s, o in pairs)


def _forward(dims: int) -> Callable[..., Any]:
    def decompose(x: Tensor, output_size: Sequence[int]) -> Any:
        sizes = x.shape[-dims:]
        if _tiled(sizes, output_size):
            return NotImplemented
        total = x.to(opmath(x.dtype))
        for axis, (size, out) in enumerate(zip(sizes, output_size, strict=True), -dims):
            total = _sums(total, axis, _windows(size, out))
        return (total / _counts(sizes, output_size, total)).to(x.dtype)

    return decompose


def _backward(dims: int) -> Callable[..., Any]:
    def decompose(grad: Tensor, x: Tensor) -> Any:
        sizes, outs = x.shape[-dims:], grad.shape[-dims:]
        if _tiled(sizes, outs):
            return NotImplemented
        wide = grad.to(opmath(grad.dtype))
        total = wide / _counts(sizes, outs, wide)
        for axis, (size, out) in enumerate(zip(sizes, outs, strict=True), -dims):
            total = _sums(total, axis, _covering(size, out))
        return total.to(x.dtype)

    return decompose


def table() -> dict[Any, Callable[..., Any]]:
    aten = torch.ops.aten
    return {
        aten._adaptive_avg_pool3d.default: _forward(3),
        aten._adaptive_avg_pool2d_backward.default: _backward(2),
        aten._adaptive_avg_pool3d_backward.default: _backward(3),
    }
