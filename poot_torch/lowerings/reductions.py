"""Reductions. Sums of f16 and bf16 accumulate in f32; what eager derives from a sum (mean, var) it
computes in f32 and rounds once, so these are expanded between casts.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..emitter import Declined, Emitter, Val, is_float, normalize_axes, opmath
from . import lower

aten = torch.ops.aten


# Kept elements from which one kernel for everything beats one for each reduction: where memory runs along the reduced
# axes a row is one thread's work, else a few dozen columns are.
_FEWEST_ROWS, _FEWEST_COLUMNS = 16, 512


def trailing(e: Emitter, x: Val, axes: list[int]) -> tuple[Val, list[int], list[int]]:
    """x with the reduced axes last, where they are then, and the permutation back.

    What needs several reductions over the same axes becomes one row kernel if those are the last ones; the
    transpose is a view. With few rows x stays as it is: its reductions are better shared among threads one by one.
    """
    same = list(range(x.ndim))
    kept = [i for i in same if i not in axes]
    count = e.numel([x.shape[i] for i in kept])
    along = x.ndim - 1 in axes and all(m.stride()[-1:] == (1,) for m in e.args_meta[:1])
    fewest = _FEWEST_ROWS if along else _FEWEST_COLUMNS
    if not kept or kept[-1] < min(axes, default=0) or (isinstance(count, int) and count < fewest):
        return x, axes, same
    order = [*kept, *sorted(axes)]
    return e.transpose(x, order), same[len(kept) :], [order.index(i) for i in same]


def sum_dtype(x: Val, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    return x.dtype if is_float(x.dtype) else torch.int64


@lower(aten.sum.default, aten.sum.dim_IntList)
def sum_(e: Emitter, x: Val, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Val:
    axes = normalize_axes(dim, x.ndim)
    return e.cascaded(e.cast(x, sum_dtype(x, dtype)), axes, keepdim)


@lower(aten.prod.default)
def prod(e: Emitter, x: Val, *, dtype: torch.dtype | None = None) -> Val:
    return e.reduce("prod", e.cast(x, sum_dtype(x, dtype)), range(x.ndim), False)


@lower(aten.prod.dim_int)
def prod_dim(e: Emitter, x: Val, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Val:
    axes = normalize_axes(dim, x.ndim)
    return e.reduce("prod", e.cast(x, sum_dtype(x, dtype)), axes, keepdim)


@lower(aten.mean.default, aten.mean.dim)
def mean(e: Emitter, x: Val, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Val:
    dtype = dtype or x.dtype
    if not is_float(dtype):
        raise Declined("mean of integers")
    wide = e.cast(e.cast(x, dtype), opmath(dtype))
    return e.cast(e.mean(wide, normalize_axes(dim, x.ndim), keepdim, cascaded=True), dtype)


@lower(aten.amax.default)
def amax(e: Emitter, x: Val, dim: Any = (), keepdim: bool = False) -> Val:
    return _extreme(e, "max", x, normalize_axes(dim, x.ndim), keepdim)


@lower(aten.amin.default)
def amin(e: Emitter, x: Val, dim: Any = (), keepdim: bool = False) -> Val:
    return _extreme(e, "min", x, normalize_axes(dim, x.ndim), keepdim)


def _extreme(e: Emitter, op: str, x: Val, axes: Any, keepdim: bool) -> Val:
    if x.dtype is torch.bool:
        return e.reduce("any" if op == "max" else "all", x, axes, keepdim)
    return e.reduce(op, x, axes, keepdim)


@lower(aten.max.default)
def max_all(e: Emitter, x: Val) -> Val:
    return _extreme(e, "max", x, range(x.ndim), False)


@lower(aten.min.default)
def min_all(e: Emitter, x: Val) -> Val:
    return _extreme(e, "min", x, range(x.ndim), False)


def _arg(e: Emitter, op: str, x: Val, axis: int, keepdim: bool) -> tuple[Val, Val]:
    """(extreme, index of its first occurrence); a NaN is the extreme, as in eager."""
    if x.ndim == 0:
        return x, e.full(0, (), torch.int64)
    x, (axis,), back = trailing(e, x, [axis])
    best = _extreme(e, op, x, [axis], True)
    hit = e.compare("eq", x, best)
    if is_float(x.dtype):
        hit = e.emit("bit_or", hit, e.emit("is_nan", x))
    size = x.shape[axis]
    place = e.reshape(e.iota(size), [size if i == axis else 1 for i in range(x.ndim)])
    missing = e.value(size, torch.int64)
    index = e.reduce("min", e.where(hit, place, missing, torch.int64), [axis], True)
    if keepdim:
        return e.transpose(best, back), e.transpose(index, back)
    shape = [d for i, d in enumerate(x.shape) if i != axis]
    return e.reshape(best, shape), e.reshape(index, shape)


@lower(aten.max.dim)
def max_dim(e: Emitter, x: Val, dim: int, keepdim: bool = False) -> tuple[Val, Val]:
    return _arg(e, "max", x, dim % max(x.ndim, 1), keepdim)


@lower(aten.min.dim)
def min_dim(e: Emitter, x: Val, dim: int, keepdim: bool = False) -> tuple[Val, Val]:
    return _arg(e, "min", x, dim % max(x.ndim, 1), keepdim)


def _argument(e: Emitter, op: str, x: Val, dim: int | None, keepdim: bool) -> Val:
    if dim is not None:
        return _arg(e, op, x, dim % max(x.ndim, 1), keepdim)[1]
    _, index = _arg(e, op, e.reshape(x, (e.numel(x.shape),)), 0, False)
    return e.reshape(index, e.out_shape)


@lower(aten.argmax.default)
def argmax(e: Emitter, x: Val, dim: int | None = None, keepdim: bool = False) -> Val:
    return _argument(e, "max", x, dim, keepdim)


@lower(aten.argmin.default)
def argmin(e: Emitter, x: Val, dim: int | None = None, keepdim: bool = False) -> Val:
    return _argument(e, "min", x, dim, keepdim)


@lower(aten.any.default, aten.any.dim, aten.any.dims)
def any_(e: Emitter, x: Val, dim: Any = None, keepdim: bool = False) -> Val:
    hit = e.reduce("any", e.cast(x, torch.bool), normalize_axes(dim, x.ndim), keepdim)
    return e.cast(hit, e.out_dtype)  # bytes of bytes


@lower(aten.all.default, aten.all.dim, aten.all.dims)
def all_(e: Emitter, x: Val, dim: Any = None, keepdim: bool = False) -> Val:
    hit = e.reduce("all", e.cast(x, torch.bool), normalize_axes(dim, x.ndim), keepdim)
    return e.cast(hit, e.out_dtype)


def moments(e: Emitter, x: Val, axes: Any, correction: Any) -> tuple[Val, Val]:
    """(variance, mean) over axes with the axes kept, in x's dtype, by two passes."""
    mean = e.mean(x, axes, True)
    centred = e.sub(x, mean)
    total = e.reduce("sum", e.mul(centred, centred), axes, True)
    count = e.numel([x.shape[a] for a in axes])
    if correction:
        if isinstance(count, int):
            count = max(count - correction, 0)
        else:
            left = e.sub(e.value(count, x.dtype), correction)
            count = e.emit("maximum", left, e.lit(0, x.dtype))
    return e.div(total, count), mean


def _var_mean(e: Emitter, x: Val, dim: Any, correction: Any, keepdim: bool) -> tuple[Val, Val]:
    axes = normalize_axes(dim, x.ndim)
    wide, last, back = trailing(e, e.cast(x, opmath(x.dtype)), axes)
    var, mean = moments(e, wide, last, 1 if correction is None else correction)
    if keepdim:
        return e.transpose(var, back), e.transpose(mean, back)
    shape = [d for i, d in enumerate(x.shape) if i not in axes]
    return e.reshape(var, shape), e.reshape(mean, shape)


@lower(aten.var.correction)
def var(e: Emitter, x: Val, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Val:
    return e.cast(_var_mean(e, x, dim, correction, keepdim)[0], x.dtype)


@lower(aten.std.correction)
def std(e: Emitter, x: Val, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Val:
    return e.cast(e.emit("sqrt", _var_mean(e, x, dim, correction, keepdim)[0]), x.dtype)


@lower(aten.var_mean.correction)
def var_mean(e: Emitter, x: Val, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Val, Val]:
    v, m = _var_mean(e, x, dim, correction, keepdim)
    return e.cast(v, x.dtype), e.cast(m, x.dtype)


@lower(aten.logsumexp.default)
def logsumexp(e: Emitter, x: Val, dim: Any, keepdim: bool = False) -> Val:
    axes = normalize_axes(dim, x.ndim)
    wide = e.cast(x, opmath(e.out_dtype))  # integers become floating-point numbers
    wide, axes, back = trailing(e, wide, axes)
    top = e.reduce("max", wide, axes, True)
    finite = e.compare("lt", e.emit("abs", top), math.inf)
    top = e.where(finite, top, 0.0, wide.dtype)
    total = e.reduce("sum", e.emit("exp", e.sub(wide, top)), axes, True)
    total = e.transpose(e.add(e.emit("log", total), top), back)
    return e.cast(e.reshape(total, e.out_shape), e.out_dtype)


@lower(aten.linalg_vector_norm.default)
def vector_norm(e: Emitter, x: Val, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Val:
    dtype = dtype or x.dtype
    axes = normalize_axes(dim, x.ndim)
    wide = e.cast(x, opmath(dtype))
    if ord == 2:
        norm = e.emit("sqrt", e.reduce("sum", e.mul(wide, wide), axes, keepdim))
    elif ord == 1:
        norm = e.reduce("sum", e.emit("abs", wide), axes, keepdim)
    elif ord == math.inf:
        norm = e.reduce("max", e.emit("abs", wide), axes, keepdim)
    elif ord == -math.inf:
        norm = e.reduce("min", e.emit("abs", wide), axes, keepdim)
    elif ord == 0:
        norm = e.reduce("sum", e.cast(e.compare("ne", wide, 0.0), wide.dtype), axes, keepdim)
    else:
        power: Any = ord if isinstance(ord, (int, float)) else e.value(ord, wide.dtype)
        root: Any = 1.0 / ord if power is ord else e.div(e.full(1.0, (), wide.dtype), power)
        size = e.emit("abs", wide)
        total = e.reduce("sum", e.emit("pow", size, e.operand(power, wide.dtype)), axes, keepdim)
        norm = e.emit("pow", total, e.operand(root, wide.dtype))
        if power is not ord:  # known when it runs
            count = e.reduce("sum", e.cast(e.compare("ne", wide, 0.0), wide.dtype), axes, keepdim)
            norm = e.where(e.compare("eq", power, 0.0), count, norm, wide.dtype)
            for bound, fn in ((math.inf, "max"), (-math.inf, "min")):
                if all(d != 0 for d in x.shape):
                    norm = e.where(e.compare("eq", power, bound), e.reduce(fn, size, axes, keepdim), norm, wide.dtype)
    return e.cast(norm, dtype)
