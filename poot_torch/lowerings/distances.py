"""Distances between rows, and products of three tensors summed over axes: reductions over broadcast operands."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..emitter import Declined, Emitter, Val, is_float
from . import lower

aten = torch.ops.aten


@lower(aten._cdist_forward.default)
def cdist(e: Emitter, a: Val, b: Val, p: float, compute_mode: int | None) -> Val:
    """[.., M, N] distances of rows [.., M, D] and [.., N, D]."""
    if not is_float(a.dtype) or a.dtype != b.dtype:
        raise Declined("distances of integers or of mixed dtypes")
    difference = e.emit("abs", e.sub(e.unsqueeze(a, a.ndim - 1), e.unsqueeze(b, b.ndim - 2)))
    axes = [difference.ndim - 1]
    if difference.shape[-1] == 0:
        return e.full(0, e.out_shape, a.dtype)
    if p == math.inf:
        return e.reduce("max", difference, axes, False)
    if p == 0:
        return e.reduce("sum", e.cast(e.compare("ne", difference, 0.0), a.dtype), axes, False)
    if p == 1:
        return e.reduce("sum", difference, axes, False)
    if p == 2:
        return e.emit("sqrt", e.reduce("sum", e.mul(difference, difference), axes, False))
    total = e.reduce("sum", e.emit("pow", difference, e.lit(p, a.dtype)), axes, False)
    return e.emit("pow", total, e.lit(1.0 / p, a.dtype))


@lower(aten._trilinear.default)
def trilinear(
    e: Emitter,
    a: Val,
    b: Val,
    c: Val,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Val:
    """The sum over `sumdim` of the product of three tensors, each with axes of size 1 put in."""

    def placed(x: Val, axes: Any) -> Val:
        for axis in axes:
            x = e.unsqueeze(x, axis)
        return x

    product = e.mul(e.mul(placed(a, expand1), placed(b, expand2)), placed(c, expand3))
    return e.reduce("sum", product, sumdim, False)
