"""Running sums, products, extremes and log-sum-exps, each accumulated position by position as in eager."""

from __future__ import annotations

import torch

from ..emitter import Declined, Emitter, Val, is_float
from . import lower
from .reductions import sum_dtype

aten = torch.ops.aten
_LONGEST_PAIRED = 1024


def _on_gpu(e: Emitter) -> bool:
    return bool(e.args_meta) and e.args_meta[0].device.type != "cpu"


def _pair_sums(e: Emitter, x: Val, dim: int) -> Val:
    """Running sums of integers on a GPU: sums over the earlier of all pairs of positions."""
    axis = dim % x.ndim
    size = x.shape[axis]
    if not isinstance(size, int) or size > _LONGEST_PAIRED:
        raise Declined("scans on a GPU over a long or symbolic axis")
    order = [*(i for i in range(x.ndim) if i != axis), axis]
    rows = e.transpose(x, order)
    pairs = e.reshape(rows, (*rows.shape[:-1], 1, size))
    earlier = e.emit("le", e.iota(size), e.reshape(e.iota(size), (size, 1)))
    kept = e.where(earlier, pairs, e.lit(0, x.dtype), x.dtype)
    total = e.reduce("sum", kept, [kept.ndim - 1], False)
    return e.transpose(total, [order.index(i) for i in range(x.ndim)])


def _scan(e: Emitter, op: str, x: Val, dim: int) -> tuple[Val, ...]:
    if _on_gpu(e):
        raise Declined("scans on a GPU")
    return e.emit_multi(f"scan_{op}", x, axis=dim % x.ndim)


def _running(e: Emitter, op: str, x: Val, dim: int) -> Val:
    return x if x.ndim == 0 else _scan(e, op, x, dim)[0]


@lower(aten.cumsum.default)
def cumsum(e: Emitter, x: Val, dim: int, *, dtype: torch.dtype | None = None) -> Val:
    x = e.cast(x, sum_dtype(x, dtype))
    if x.ndim and _on_gpu(e) and not is_float(x.dtype):
        return _pair_sums(e, x, dim)
    return _running(e, "sum", x, dim)


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
