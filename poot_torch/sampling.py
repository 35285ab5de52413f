"""Decompositions of grid sampling in two and three dimensions, and of its gradients, as reads and sums through one
index into the flattened space. Bicubic gradients are left whole."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .emitter import opmath

aten = torch.ops.aten
_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1


class _Axis(NamedTuple):
    at: Tensor  # coordinate in the operand, [N, 1, P]
    slope: Tensor | float  # of it by the grid's number


def _reflected(x: Tensor, low: int, high: int) -> tuple[Tensor, Tensor]:
    """(x folded back between low/2 and high/2, the sign of its slope)"""
    if low == high:
        return torch.zeros_like(x), torch.zeros_like(x)
    least, span = low / 2, (high - low) / 2
    away = (x - least).abs()
    extra, flips = torch.fmod(away, span), torch.floor(away / span)
    even = torch.fmod(flips, 2.0) == 0.0
    sign = torch.where(x < least, -1.0, 1.0) * torch.where(even, 1.0, -1.0)
    return torch.where(even, extra + least, span - extra + least), sign


def _axis(grid: Tensor, size: int, padding: int, align: bool) -> _Axis:
    x = (grid + 1) * ((size - 1) / 2) if align else ((grid + 1) * size - 1) / 2
    slope: Tensor | float = (size - 1) / 2 if align else size / 2
    if padding == _ZEROS:
        return _Axis(x, slope)
    if padding != _BORDER:
        x, sign = _reflected(x, 0, 2 * (size - 1)) if align else _reflected(x, -1, 2 * size - 1)
        slope = sign * slope
    inside = (x > 0) & (x < size - 1)
    return _Axis(x.clamp(0, size - 1), torch.where(inside, slope, 0.0))


class _Corner(NamedTuple):
    place: Tensor  # in the flattened space, [N, 1, P]
    valid: Tensor
    weight: Tensor
    slopes: list[Tensor]  # of the weight, by each coordinate


def _product(factors: list[Tensor], like: Tensor) -> Tensor:
    return functools.reduce(torch.mul, factors) if factors else torch.ones_like(like)


def _corner(axes: list[_Axis], sizes: Any, which: tuple[int, ...], nearest: bool) -> _Corner:
    place, valid, weights, signs = None, None, [], []
    for axis, size, upper in zip(axes, sizes, which, strict=True):
        low = axis.at.round() if nearest else axis.at.floor()
        at = low + upper
        part = axis.at - low
        weights.append(torch.ones_like(part) if nearest else part if upper else 1 - part)
        signs.append(1.0 if upper else -1.0)
        inside = (at >= 0) & (at < size)
        index = torch.where(inside, at, 0.0).to(torch.int64)
        place = index if place is None else place * size + index
        valid = inside if valid is None else valid & inside
    assert place is not None and valid is not None
    slopes = [_product(weights[:k] + weights[k + 1 :], axes[0].at) * signs[k] for k in range(len(axes))]
    return _Corner(place, valid, _product(weights, axes[0].at), slopes)


def _prepared(x: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> tuple[list[_Axis], list[_Corner]]:
    """The grid's last number is of the first axis after the channels."""
    sizes = x.shape[2:]
    wide = grid.to(opmath(x.dtype)).reshape(grid.shape[0], 1, grid.shape[1:-1].numel(), len(sizes))
    axes = [_axis(wide[..., len(sizes) - 1 - k], size, padding, align) for k, size in enumerate(sizes)]
    nearest = mode == _NEAREST
    corners = [(0,) * len(sizes)] if nearest else itertools.product((0, 1), repeat=len(sizes))
    return axes, [_corner(axes, sizes, c, nearest) for c in corners]


def _read(x: Tensor, corner: _Corner) -> Tensor:
    """[N, C, P]"""
    flat = x.reshape(x.shape[0], x.shape[1], x.shape[2:].numel())
    found = flat.gather(2, corner.place.expand(-1, x.shape[1], -1)).to(corner.weight.dtype)
    return torch.where(corner.valid, found, 0.0)


def grid_sampler_3d(x: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Tensor:
    _, corners = _prepared(x, grid, mode, padding, align)
    total = functools.reduce(torch.add, (_read(x, c) * c.weight for c in corners))
    return total.reshape(x.shape[0], x.shape[1], *grid.shape[1:-1]).to(x.dtype)


def grid_sampler_backward(
    grad: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool, output_mask: Any
) -> Any:
    if mode not in (_BILINEAR, _NEAREST):
        return NotImplemented
    axes, corners = _prepared(x, grid, mode, padding, align)
    each = grad.reshape(x.shape[0], x.shape[1], grad.shape[2:].numel()).to(opmath(x.dtype))
    of_x = None
    if output_mask[0]:
        of_x = each.new_zeros(x.shape[0], x.shape[1], x.shape[2:].numel())
        for c in corners:
            value = torch.where(c.valid, each * c.weight, 0.0)
            of_x = of_x.scatter_add(2, c.place.expand(-1, x.shape[1], -1), value)
        of_x = of_x.reshape(x.shape).to(x.dtype)
    if mode == _NEAREST:
        return of_x, torch.zeros_like(grid, memory_format=torch.contiguous_format)
    read = [(_read(x, c) * each).sum(1, keepdim=True) for c in corners]
    slopes = []
    for k, axis in enumerate(axes):
        total = functools.reduce(torch.add, (r * c.slopes[k] for r, c in zip(read, corners, strict=True)))
        slopes.append(total * axis.slope)
    return of_x, torch.stack(slopes[::-1], -1).reshape(grid.shape).to(grid.dtype)


OWN: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler_3d.default: grid_sampler_3d,
    aten.grid_sampler_2d_backward.default: grid_sampler_backward,
    aten.grid_sampler_3d_backward.default: grid_sampler_backward,
}
