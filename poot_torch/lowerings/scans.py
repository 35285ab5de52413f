"""Running sums, products, extremes and log-sum-exps, each accumulated position by position as in eager."""

from __future__ import annotations

import torch

from ..emitter import Declined, Emitter, Val, is_float
from . import lower
from .reductions import sum_dtype

aten = torch.ops.aten


def _scan(e: Emitter, op: str, x: Val, dim: int) -> tuple[Val, ...]:
    return e.emit_multi(f"scan_{op}", x, axis=dim % x.ndim)


def _running(e: Emitter, op: str, x: Val, dim: int) -> Val:
    return x if x.ndim == 0 else _scan(e, op, x, dim)[0]


@lower(aten.cumsum.default)
def cumsum(e: Emitter, x: Val, dim: int, *, dtype: torch.dtype | None = None) -> Val:
    return _running(e, "sum", e.cast(x, sum_dtype(x, dtype)), dim)


@lower(aten.cumprod.default)
def cumprod(e: Emitter, x: Val, dim: int, *, dtype: torch.dtype | None = None) -> Val:
    return _running(e, "prod", e.cast(x, sum_dtype(x, dtype)), dim)


@lower(aten.logcumsumexp.default)
def logcumsumexp(e: Emitter, x: Val, dim: int) -> Val:
    if not is_float(x.dtype):
        raise Declined("logcumsumexp of integers")
    return _running(e, "logaddexp", x, dim)


def _extreme(e: Emitter, op: str, x: Val, dim: int) -> tuple[Val, Val]:
    """(values, indices): the place of the latest element that is the extreme so far, or NaN."""
    if x.ndim == 0:
        return x, e.full(0, (), torch.int64)
    if x.dtype is torch.bool:
        values, places = _extreme(e, op, e.cast(x, torch.uint8), dim)
        return e.cast(values, torch.bool), places
    values, places = _scan(e, op, x, dim)
    return values, places


@lower(aten.cummax.default)
def cummax(e: Emitter, x: Val, dim: int) -> tuple[Val, Val]:
    return _extreme(e, "max", x, dim)


@lower(aten.cummin.default)
def cummin(e: Emitter, x: Val, dim: int) -> tuple[Val, Val]:
    return _extreme(e, "min", x, dim)
