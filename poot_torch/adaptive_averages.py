"""Adaptive average pooling to sizes that do not divide the plane; where windows tile it, there is a lowering.

Of `size` elements the i-th of `length` windows covers those from floor(i * size / length) up to
ceil((i + 1) * size / length). An element lies in the windows that the same rule gives with the two sizes exchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .emitter import opmath

aten = torch.ops.aten


def _edges(size: int, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    step = torch.arange(length, device=device)
    return step * size // length, ((step + 1) * size + length - 1) // length


def _column(x: Tensor, axis: int) -> list[int]:
    return [-1 if i == axis else 1 for i in range(x.ndim)]


def _counts(size: int, length: int, x: Tensor, axis: int) -> Tensor:
    """Elements of each window, along an axis of x."""
    start, end = _edges(size, length, x.device)
    return (end - start).to(x.dtype).reshape(_column(x, axis))


def _sums(x: Tensor, axis: int, length: int) -> Tensor:
    """Sums along the axis over the windows: shifted reads where sizes are known, else one masked reduction."""
    size = x.shape[axis]
    start, end = _edges(size, length, x.device)
    if _known(size, length):
        longest = max(-(-(i + 1) * size // length) - i * size // length for i in range(length))
        column = _column(x, axis)
        terms = (
            torch.where((start + j < end).reshape(column), x.index_select(axis, (start + j).clamp(max=size - 1)), 0.0)
            for j in range(longest)
        )
        return functools.reduce(torch.add, terms)
    longest = (size + length - 1) // length + 1
    place = start[:, None] + torch.arange(longest, device=x.device)
    shape = [d for i, n in enumerate(x.shape) for d in ((length, longest) if i == axis else (n,))]
    mask = [d for i in range(x.ndim) for d in ((length, longest) if i == axis else (1,))]
    windows = x.index_select(axis, place.clamp(max=size - 1).reshape(-1)).reshape(shape)
    return torch.where((place < end[:, None]).reshape(mask), windows, 0.0).sum(axis + 1)


def _known(*sizes: Any) -> bool:
    return all(isinstance(n, int) for n in sizes)


def _declined(sizes: Sequence[Any], lengths: Sequence[Any]) -> bool:
    pairs = list(zip(sizes, lengths, strict=True))
    if any(isinstance(n, int) and n == 0 for pair in pairs for n in pair):
        return True
    return all(_known(*pair) and pair[0] % pair[1] == 0 for pair in pairs)


def _forward(x: Tensor, output_size: Sequence[int], n: int) -> Tensor:
    if _declined(x.shape[-n:], output_size):
        return NotImplemented
    total = x.to(opmath(x.dtype))
    for axis, length in zip(range(x.ndim - n, x.ndim), output_size, strict=True):
        total = _sums(total, axis, length) / _counts(x.shape[axis], length, total, axis)
    return total.to(x.dtype)


def _backward(grad: Tensor, x: Tensor, n: int) -> Tensor:
    if _declined(x.shape[-n:], grad.shape[-n:]):
        return NotImplemented
    wide = grad.to(opmath(grad.dtype))
    for axis in range(x.ndim - n, x.ndim):
        each = wide / _counts(x.shape[axis], grad.shape[axis], wide, axis)
        wide = _sums(each, axis, x.shape[axis])
    return wide.to(x.dtype)


OWN: dict[Any, Callable[..., Any]] = {
    aten._adaptive_avg_pool2d.default: functools.partial(_forward, n=2),
    aten._adaptive_avg_pool3d.default: functools.partial(_forward, n=3),
    aten._adaptive_avg_pool2d_backward.default: functools.partial(_backward, n=2),
    aten._adaptive_avg_pool3d_backward.default: functools.partial(_backward, n=3),
}
