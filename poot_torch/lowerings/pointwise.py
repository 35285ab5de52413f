"""Pointwise arithmetic, bits and logic."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from ..emitter import Declined, Emitter, Val, is_float, opmath
from . import lower
from .predicates import truth

aten = torch.ops.aten


@lower(aten.neg.default)
def neg(e: Emitter, x: Val) -> Val:
    return e.emit("neg", x)


@lower(aten.abs.default)
def absolute(e: Emitter, x: Val) -> Val:
    return e.emit("abs", x)


@lower(aten.sign.default, aten.sgn.default)
def sign(e: Emitter, x: Val) -> Val:
    return x if x.dtype is torch.bool else e.emit("sign", x)


@lower(aten.signbit.default)
def signbit(e: Emitter, x: Val) -> Val:
    if is_float(x.dtype):
        return e.compare("lt", e.emit("copysign", e.full(1.0, x.shape, x.dtype), x), 0.0)
    if x.dtype is torch.bool:
        return e.full(False, x.shape, torch.bool)
    return e.compare("lt", x, 0)


@lower(aten.positive.default)
def positive(e: Emitter, x: Val) -> Val:
    return x


@lower(aten.bitwise_not.default)
def bitwise_not(e: Emitter, x: Val) -> Val:
    return e.emit("bit_not", x)


# ---- two operands


def _scaled(e: Emitter, op: str, a: Any, b: Any, alpha: Any) -> Val:
    """a ± alpha*b. With alpha, eager rounds every operand (on a GPU: those that are tensors), multiplies and adds in
    opmath, and rounds once."""
    dtype = e.promote(a, b)[1]
    if isinstance(b, int) and b == 0 and isinstance(a, Val) and a.dtype == dtype and not is_float(dtype):
        return a
    if alpha == 1:
        return e.pointwise(op, (a, b), dtype)
    if not is_float(dtype):
        return e.pointwise(op, (a, e.pointwise("mul", (b, alpha), dtype)), dtype)
    wide = opmath(dtype)
    factor = -alpha if op == "sub" else alpha

    def entering(x: Any) -> Any:
        return x if e.on_gpu and not isinstance(x, Val) else e.rounded(x, dtype)

    b_wide, a_wide = e.value(entering(b), wide), e.operand(entering(a), wide)
    return e.cast(e.emit("fma", b_wide, e.operand(entering(factor), wide), a_wide), dtype)


@lower(aten.add.Tensor, aten.add.Scalar)
def add(e: Emitter, a: Any, b: Any, alpha: Any = 1) -> Val:
    return _scaled(e, "add", a, b, alpha)


def _no_masks(*args: Any) -> None:
    if any(isinstance(a, bool) or isinstance(a, Val) and a.dtype is torch.bool for a in args):
        raise Declined("subtraction of a mask, which eager refuses")


@lower(aten.sub.Tensor, aten.sub.Scalar)
def sub(e: Emitter, a: Any, b: Any, alpha: Any = 1) -> Val:
    _no_masks(a, b)
    return _scaled(e, "sub", a, b, alpha)


@lower(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(e: Emitter, a: Any, b: Any, alpha: Any = 1) -> Val:
    _no_masks(a, b)
    return _scaled(e, "sub", b, a, alpha)


@lower(aten.mul.Tensor, aten.mul.Scalar)
def mul(e: Emitter, a: Any, b: Any) -> Val:
    return e.binary("mul", a, b)


@lower(aten.maximum.default)
def maximum(e: Emitter, a: Val, b: Val) -> Val:
    return e.binary("maximum", a, b)


@lower(aten.minimum.default)
def minimum(e: Emitter, a: Val, b: Val) -> Val:
    return e.binary("minimum", a, b)


def _ignoring_nan(e: Emitter, op: str, a: Val, b: Val) -> Val:
    dtype = e.promote(a, b)[1]
    a, b = e.value(a, dtype), e.value(b, dtype)
    both = e.emit(op, a, b)
    if not is_float(dtype):
        return both
    return e.where(e.emit("is_nan", a), b, e.where(e.emit("is_nan", b), a, both, dtype), dtype)


@lower(aten.fmax.default)
def fmax(e: Emitter, a: Val, b: Val) -> Val:
    return _ignoring_nan(e, "maximum", a, b)


@lower(aten.fmin.default)
def fmin(e: Emitter, a: Val, b: Val) -> Val:
    return _ignoring_nan(e, "minimum", a, b)


@lower(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(e: Emitter, a: Val, b: Any) -> Val:
    return e.binary("copysign", a, b, Kind.INT_TO_FLOAT)


# ---- integers and bools


def _bitwise(op: str) -> Any:
    def fn(e: Emitter, a: Any, b: Any) -> Val:
        return e.binary(op, a, b)

    return fn


for _op, _overloads in {
    "bit_and": (aten.bitwise_and.Tensor, aten.bitwise_and.Scalar, aten.bitwise_and.Scalar_Tensor),
    "bit_or": (aten.bitwise_or.Tensor, aten.bitwise_or.Scalar, aten.bitwise_or.Scalar_Tensor),
    "bit_xor": (aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar, aten.bitwise_xor.Scalar_Tensor),
    "shift_left": (
        aten.bitwise_left_shift.Tensor,
        aten.bitwise_left_shift.Tensor_Scalar,
        aten.bitwise_left_shift.Scalar_Tensor,
        aten.__lshift__.Tensor,
        aten.__lshift__.Scalar,
    ),
    "shift_right": (
        aten.bitwise_right_shift.Tensor,
        aten.bitwise_right_shift.Tensor_Scalar,
        aten.bitwise_right_shift.Scalar_Tensor,
        aten.__rshift__.Tensor,
        aten.__rshift__.Scalar,
    ),
}.items():
    lower(*_overloads)(_bitwise(_op))


@lower(aten.logical_not.default)
def logical_not(e: Emitter, x: Val) -> Val:
    return e.emit("bit_not", truth(e, x))


@lower(aten.logical_and.default)
def logical_and(e: Emitter, a: Val, b: Val) -> Val:
    return e.emit("bit_and", truth(e, a), truth(e, b))


@lower(aten.logical_or.default)
def logical_or(e: Emitter, a: Val, b: Val) -> Val:
    return e.emit("bit_or", truth(e, a), truth(e, b))


@lower(aten.logical_xor.default)
def logical_xor(e: Emitter, a: Val, b: Val) -> Val:
    return e.emit("bit_xor", truth(e, a), truth(e, b))


# ---- three operands, computed in opmath and rounded once


def _wide(e: Emitter, *args: Any) -> tuple[torch.dtype, list[Val]]:
    dtype = e.promote(*args)[1]
    if not is_float(dtype):
        return dtype, [e.value(a, dtype) for a in args]
    return dtype, [e.value(a, opmath(dtype)) for a in args]


@lower(aten.addcmul.default)
def addcmul(e: Emitter, x: Val, a: Val, b: Val, *, value: Any = 1) -> Val:
    dtype, (x, a, b) = _wide(e, x, a, b)
    scaled = a if value == 1 else e.mul(a, value)
    if is_float(dtype):  # eager's compilers round the product and the sum once
        return e.cast(e.emit("fma", scaled, b, x), dtype)
    return e.add(x, e.mul(scaled, b))


@lower(aten.addcdiv.default)
def addcdiv(e: Emitter, x: Val, a: Val, b: Val, *, value: Any = 1) -> Val:
    dtype, (x, a, b) = _wide(e, x, a, b)
    if not is_float(dtype):
        raise Declined("addcdiv of integers")
    scaled = a if value == 1 else e.mul(a, value)
    return e.cast(e.add(x, e.div(scaled, b)), dtype)


def _fused_multiply_add() -> list[Any]:
    """The overload that the default compiler's decompositions use; it is registered with that compiler."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch._inductor.inductor_prims")
    return [torch.ops.prims.fma.default] if hasattr(torch.ops.prims, "fma") else []


@lower(*_fused_multiply_add())
def fma(e: Emitter, a: Any, b: Any, c: Any) -> Val:
    dtype = e.promote(a, b, c)[1]
    if not is_float(dtype):
        raise Declined("fused multiply-add of integers")
    wide = opmath(dtype)
    a, b, c = (e.value(e.value(v, dtype), wide) for v in (a, b, c))
    return e.cast(e.emit("fma", a, b, c), dtype)


@lower(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(e: Emitter, start: Val, end: Val, weight: Any) -> Val:
    dtype, (a, b) = _wide(e, start, end)
    w = e.value(weight, a.dtype)
    one = e.full(1.0, (), a.dtype)
    small = e.compare("lt", e.emit("abs", w), 0.5)
    factor = e.where(small, w, e.sub(w, one), a.dtype)
    return e.cast(e.emit("fma", factor, e.sub(b, a), e.where(small, a, b, a.dtype)), dtype)
