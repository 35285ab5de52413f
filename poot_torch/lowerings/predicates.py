"""Predicates of one number, comparisons, and selection by them."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..emitter import Declined, Emitter, Val, is_float
from . import lower

aten = torch.ops.aten


def truth(e: Emitter, x: Val) -> Val:
    return e.cast(x, torch.bool)


@lower(aten.isnan.default)
def isnan(e: Emitter, x: Val) -> Val:
    return e.emit("is_nan", x) if is_float(x.dtype) else e.full(False, x.shape, torch.bool)


@lower(aten.isinf.default)
def isinf(e: Emitter, x: Val) -> Val:
    if not is_float(x.dtype):
        return e.full(False, x.shape, torch.bool)
    return e.compare("eq", e.emit("abs", x), math.inf)


@lower(aten.isposinf.default)
def isposinf(e: Emitter, x: Val) -> Val:
    return e.compare("eq", x, math.inf) if is_float(x.dtype) else e.full(False, x.shape, torch.bool)


@lower(aten.isneginf.default)
def isneginf(e: Emitter, x: Val) -> Val:
    return e.compare("eq", x, -math.inf) if is_float(x.dtype) else e.full(False, x.shape, torch.bool)


@lower(aten.isfinite.default)
def isfinite(e: Emitter, x: Val) -> Val:
    if not is_float(x.dtype):
        return e.full(True, x.shape, torch.bool)
    return e.compare("lt", e.emit("abs", x), math.inf)


def _comparison(op: str) -> Any:
    def fn(e: Emitter, a: Any, b: Any) -> Val:
        return e.compare(op, a, b)

    return fn


for _op in ("eq", "ne", "lt", "le", "gt", "ge"):
    _packet = getattr(aten, _op)
    lower(_packet.Tensor, _packet.Scalar)(_comparison(_op))


# ---- selection


@lower(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where(e: Emitter, cond: Val, a: Any, b: Any) -> Val:
    return e.where(truth(e, cond), a, b, e.promote(a, b)[1])


@lower(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(e: Emitter, x: Val, mask: Val, value: Any) -> Val:
    return e.where(mask, value, x, x.dtype)


def _bound(e: Emitter, op: str, x: Val, bound: Any, dtype: torch.dtype) -> Val:
    if bound is None:
        return x
    if isinstance(bound, Val):
        return e.emit(op, x, e.operand(bound, dtype))
    if isinstance(bound, (int, float)) and not is_float(dtype) and dtype is not torch.bool:
        info = torch.iinfo(dtype)
        if not info.min <= int(bound) <= info.max:
            raise Declined("clamp to a number outside the dtype")
    # Eager returns x where it equals a scalar bound: -0.0 clamped to 0 stays -0.0.
    return e.emit(op, e.operand(bound, dtype), x)


@lower(
    aten.clamp.default,
    aten.clamp.Tensor,
    aten.clamp_min.default,
    aten.clamp_min.Tensor,
)
def clamp(e: Emitter, x: Val, min: Any = None, max: Any = None) -> Val:
    given = [b for b in (min, max) if b is not None]
    dtype = e.promote(x, *given)[1]
    low = _bound(e, "maximum", e.cast(x, dtype), min, dtype)
    return _bound(e, "minimum", low, max, dtype)


@lower(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(e: Emitter, x: Val, max: Any) -> Val:
    return clamp(e, x, None, max)
