"""Tensors made from nothing: filled ones, ranges, triangles."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import Declined, Emitter, Val, is_float
from . import lower

aten = torch.ops.aten


def _filled(e: Emitter, number: Any) -> Val:
    return e.full(number, e.out_shape, e.out_dtype)


@lower(aten.full.default)
def full(e: Emitter, size: Any, fill_value: Any, **_: Any) -> Val:
    return _filled(e, fill_value)


@lower(aten.full_like.default, aten.new_full.default)
def full_like(e: Emitter, x: Val, *args: Any, **_: Any) -> Val:
    return _filled(e, args[-1])


@lower(aten.fill.Scalar, aten.fill.Tensor)
def fill(e: Emitter, x: Val, value: Any) -> Val:
    if isinstance(value, Val):
        return e.broadcast(e.cast(value, x.dtype), x.shape)
    return _filled(e, value)


@lower(
    aten.zero.default,
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.empty_strided.default,
    aten.new_empty_strided.default,
    aten.empty_permuted.default,
)
def zeros(e: Emitter, *_: Any, **__: Any) -> Val:
    return _filled(e, 0)


@lower(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(e: Emitter, *_: Any, **__: Any) -> Val:
    return _filled(e, 1)


@lower(aten.scalar_tensor.default)
def scalar_tensor(e: Emitter, s: Any, **_: Any) -> Val:
    return e.full(s, (), e.out_dtype)


def _arange(e: Emitter, start: Any, step: Any) -> Val:
    dtype = e.out_dtype
    (size,) = e.out_shape
    if is_float(dtype):
        start, step = (int(v) if isinstance(v, float) and v.is_integer() else v for v in (start, step))
        if isinstance(start, float) or isinstance(step, float):
            raise Declined("arange of fractions")
        if all(isinstance(v, int) for v in (start, step, size)) and abs(start) + size * abs(step) >= 2**24:
            raise Declined("arange of numbers that f32 has not")
        return e.cast(e.iota(size, torch.int64, start, step), dtype)
    if isinstance(start, float) or isinstance(step, float):
        raise Declined("integer arange with a float bound")
    return e.iota(size, dtype, start, step)


@lower(aten.arange.default)
def arange(e: Emitter, end: Any, **_: Any) -> Val:
    return _arange(e, 0, 1)


@lower(aten.arange.start)
def arange_start(e: Emitter, start: Any, end: Any, **_: Any) -> Val:
    return _arange(e, start, 1)


@lower(aten.arange.start_step)
def arange_step(e: Emitter, start: Any, end: Any, step: Any = 1, **_: Any) -> Val:
    return _arange(e, start, step)


@lower(torch.ops.prims.iota.default)
def iota(e: Emitter, length: Any, *, start: Any, step: Any, **_: Any) -> Val:
    return _arange(e, start, step)


def _triangle(e: Emitter, x: Val, op: str, diagonal: int) -> Val:
    rows, cols = x.shape[-2:]
    row = e.reshape(e.iota(rows), (rows, 1))
    keep = e.emit(op, e.iota(cols), e.add(row, diagonal))
    return e.where(keep, x, e.lit(0, x.dtype), x.dtype)


@lower(aten.tril.default)
def tril(e: Emitter, x: Val, diagonal: int = 0) -> Val:
    return _triangle(e, x, "le", diagonal)


@lower(aten.triu.default)
def triu(e: Emitter, x: Val, diagonal: int = 0) -> Val:
    return _triangle(e, x, "ge", diagonal)


@lower(aten.eye.default, aten.eye.m)
def eye(e: Emitter, *_: Any, **__: Any) -> Val:
    rows, cols = e.out_shape
    hit = e.emit("eq", e.iota(cols), e.reshape(e.iota(rows), (rows, 1)))
    return e.where(hit, 1, 0, e.out_dtype)
