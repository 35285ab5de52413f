"""Pointwise arithmetic, comparison, logic, selection and casts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from ..emitter import REDUCED, Declined, Emitter, Val, is_float, opmath
from . import lower

aten = torch.ops.aten

_UNARY_FLOAT = {
    "exp": aten.exp,
    "exp2": aten.exp2,
    "expm1": aten.expm1,
    "log": aten.log,
    "log2": aten.log2,
    "log10": aten.log10,
    "log1p": aten.log1p,
    "sqrt": aten.sqrt,
    "rsqrt": aten.rsqrt,
    "reciprocal": aten.reciprocal,
    "sin": aten.sin,
    "cos": aten.cos,
    "tan": aten.tan,
    "asin": aten.asin,
    "acos": aten.acos,
    "sinh": aten.sinh,
    "cosh": aten.cosh,
    "tanh": aten.tanh,
    "asinh": aten.asinh,
    "acosh": aten.acosh,
    "atanh": aten.atanh,
    "sigmoid": aten.sigmoid,
    "erf": aten.erf,
    "erfc": aten.erfc,
}
_UNARY_ROUNDING = {
    "floor": aten.floor,
    "ceil": aten.ceil,
    "trunc": aten.trunc,
    "round": aten.round,
}


def _unary_float(op: str) -> Any:
    def fn(e: Emitter, x: Val) -> Val:
        return e.emit(op, e.cast(x, e.promote(x, kind=Kind.INT_TO_FLOAT)[1]))

    return fn


def _unary_rounding(op: str) -> Any:
    def fn(e: Emitter, x: Val) -> Val:
        return e.emit(op, x) if is_float(x.dtype) else x

    return fn


for _op, _packet in _UNARY_FLOAT.items():
    lower(_packet.default)(_unary_float(_op))
for _op, _packet in _UNARY_ROUNDING.items():
    lower(_packet.default)(_unary_rounding(_op))


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


# ---- two operands


def _scaled(e: Emitter, op: str, a: Any, b: Any, alpha: Any) -> Val:
    """a ± alpha*b. With alpha, eager rounds every operand, multiplies and adds in opmath, and rounds once."""
    dtype = e.promote(a, b)[1]
    if isinstance(b, int) and b == 0 and isinstance(a, Val) and a.dtype == dtype and not is_float(dtype):
        return a
    if alpha == 1:
        return e.pointwise(op, (a, b), dtype)
    if not is_float(dtype):
        return e.pointwise(op, (a, e.pointwise("mul", (b, alpha), dtype)), dtype)
    wide = opmath(dtype)
    factor = -alpha if op == "sub" else alpha
    b_wide, a_wide = e.value(e.rounded(b, dtype), wide), e.operand(e.rounded(a, dtype), wide)
    return e.cast(e.emit("fma", b_wide, e.lit(e.rounded(factor, dtype), wide), a_wide), dtype)


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


@lower(aten.div.Tensor, aten.div.Scalar)
def div(e: Emitter, a: Any, b: Any) -> Val:
    return e.binary("div", a, b, Kind.INT_TO_FLOAT)


@lower(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(e: Emitter, a: Any, b: Any, *, rounding_mode: str | None = None) -> Val:
    if rounding_mode is None:
        return div(e, a, b)
    dtype = e.promote(a, b)[1]
    if rounding_mode == "floor":
        return floor_divide(e, a, b)
    if not is_float(dtype):
        return e.pointwise("trunc_div", (a, b), dtype)
    # Between tensors eager rounds the quotient to the dtype before it truncates; by a scalar after.
    between = opmath(dtype) if _is_scalar(b) else dtype
    return e.cast(e.emit("trunc", e.pointwise("div", (a, b), between)), dtype)


def _is_scalar(x: Any) -> bool:
    """Divisors that eager's kernels for f16 and bf16 read unrounded, computing all in f32."""
    return not isinstance(x, Val) or all(d == 1 for d in x.shape)


@lower(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(e: Emitter, a: Any, b: Any) -> Val:
    dtype = e.promote(a, b)[1]
    if dtype not in REDUCED:
        return e.binary("floor_div", a, b)
    if _is_scalar(b):
        return e.pointwise("floor_div", (a, b), dtype)
    return _stepwise_floor_div(e, e.value(a, dtype), e.value(b, dtype))


def _stepwise_floor_div(e: Emitter, a: Val, b: Val) -> Val:
    """Eager's vector code for f16 and bf16, which rounds after every step."""
    dtype = a.dtype
    ratio = e.div(a, b)
    mod = e.emit("fmod", a, b)
    signs_differ = e.emit("bit_xor", e.compare("lt", b, 0), e.compare("lt", mod, 0))
    adjust = e.emit("bit_and", e.compare("ne", mod, 0), signs_differ)
    overflow = e.emit("bit_and", isinf(e, ratio), e.emit("bit_not", isinf(e, a)))
    exact = e.div(e.where(overflow, a, e.sub(a, mod), dtype), b)
    exact = e.where(adjust, e.sub(exact, 1), exact, dtype)
    floor = e.emit("floor", exact)
    short_by_one = e.compare("gt", e.sub(exact, floor), 0.5)
    floor = e.where(short_by_one, e.add(floor, 1), floor, dtype)
    signed_zero = e.emit("copysign", e.lit(0, dtype), ratio)
    floor = e.where(e.compare("eq", exact, 0), signed_zero, floor, dtype)
    return e.where(e.compare("eq", b, 0), ratio, floor, dtype)


@lower(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(e: Emitter, a: Any, b: Any) -> Val:
    return e.binary("remainder", a, b)


@lower(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(e: Emitter, a: Any, b: Any) -> Val:
    return e.binary("fmod", a, b)


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


@lower(aten.atan2.default)
def atan2(e: Emitter, a: Val, b: Val) -> Val:
    return e.binary("atan2", a, b, Kind.INT_TO_FLOAT)


@lower(aten.atan.default)
def atan(e: Emitter, x: Val) -> Val:
    x = e.cast(x, e.promote(x, kind=Kind.INT_TO_FLOAT)[1])
    return e.emit("atan2", x, e.lit(1, x.dtype))


@lower(aten.deg2rad.default)
def deg2rad(e: Emitter, x: Val) -> Val:
    return e.binary("mul", x, math.pi / 180.0)


@lower(aten.rad2deg.default)
def rad2deg(e: Emitter, x: Val) -> Val:
    return e.binary("mul", x, 180.0 / math.pi)


@lower(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(e: Emitter, a: Val, b: Any) -> Val:
    return e.binary("copysign", a, b, Kind.INT_TO_FLOAT)


@lower(aten.pow.Tensor_Scalar)
def pow_scalar(e: Emitter, x: Val, exponent: Any) -> Val:
    """The special exponents of eager's kernel; each product rounds to the dtype. f16 has none but 2: all in f32."""
    dtype = e.promote(x, exponent, kind=Kind.DEFAULT)[1]
    if isinstance(exponent, (int, float)) and exponent == 0:
        return e.full(1, x.shape, dtype)
    x = e.cast(x, dtype)
    if exponent == 1:
        return x
    square = lambda: e.emit("mul", x, x)  # noqa: E731
    if exponent == 2:
        return square()
    if dtype == torch.float16:
        if exponent == 3:
            wide = e.cast(x, torch.float32)
            return e.cast(e.emit("mul", e.emit("mul", wide, wide), wide), dtype)
        return e.emit("pow", x, e.operand(exponent, dtype))
    if exponent == 3:
        return e.emit("mul", square(), x)
    if not is_float(dtype):
        return e.emit("pow", x, e.value(exponent, dtype))
    if exponent == 0.5:
        return e.emit("sqrt", x)
    if exponent == -0.5:
        return e.emit("rsqrt", x)
    if exponent == -1:
        return e.emit("reciprocal", x)
    if exponent == -2:
        return e.emit("reciprocal", square())
    return e.emit("pow", x, e.operand(exponent, dtype))


@lower(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow_tensor(e: Emitter, a: Any, b: Val) -> Val:
    dtype = e.promote(a, b)[1]
    operands = (e.value(a, dtype), e.operand(b, dtype))
    return e.emit("pow", *operands)


@lower(aten.square.default)
def square(e: Emitter, x: Val) -> Val:
    return pow_scalar(e, x, 2)


# ---- integers and bools


def _bitwise(op: str) -> Any:
    def fn(e: Emitter, a: Any, b: Any) -> Val:
        return e.binary(op, a, b)

    return fn


for _op, _overloads in {
    "bit_and": (aten.bitwise_and.Tensor, aten.bitwise_and.Scalar),
    "bit_or": (aten.bitwise_or.Tensor, aten.bitwise_or.Scalar),
    "bit_xor": (aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar),
    "shift_left": (
        aten.bitwise_left_shift.Tensor,
        aten.bitwise_left_shift.Tensor_Scalar,
        aten.__lshift__.Tensor,
        aten.__lshift__.Scalar,
    ),
    "shift_right": (
        aten.bitwise_right_shift.Tensor,
        aten.bitwise_right_shift.Tensor_Scalar,
        aten.__rshift__.Tensor,
        aten.__rshift__.Scalar,
    ),
}.items():
    lower(*_overloads)(_bitwise(_op))


def truth(e: Emitter, x: Val) -> Val:
    return e.cast(x, torch.bool)


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
    if not is_float(dtype) and dtype is not torch.bool:
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
    return e.cast(e.add(x, e.mul(scaled, b)), dtype)


@lower(aten.addcdiv.default)
def addcdiv(e: Emitter, x: Val, a: Val, b: Val, *, value: Any = 1) -> Val:
    dtype, (x, a, b) = _wide(e, x, a, b)
    if not is_float(dtype):
        raise Declined("addcdiv of integers")
    scaled = a if value == 1 else e.mul(a, value)
    return e.cast(e.add(x, e.div(scaled, b)), dtype)


@lower(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(e: Emitter, start: Val, end: Val, weight: Any) -> Val:
    dtype, (a, b) = _wide(e, start, end)
    w = e.value(weight, a.dtype)
    one = e.full(1.0, (), a.dtype)
    small = e.compare("lt", e.emit("abs", w), 0.5)
    factor = e.where(small, w, e.sub(w, one), a.dtype)
    return e.cast(e.emit("fma", factor, e.sub(b, a), e.where(small, a, b, a.dtype)), dtype)


# ---- casts and copies


@lower(aten._to_copy.default)
def to_copy(e: Emitter, x: Val, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Val:
    if device is not None and torch.device(device).type != e.meta.device.type:
        raise Declined("copy between devices")
    return e.cast(x, dtype or x.dtype)


@lower(torch.ops.prims.convert_element_type.default)
def convert_element_type(e: Emitter, x: Val, dtype: torch.dtype) -> Val:
    return e.cast(x, dtype)


@lower(
    aten.clone.default,
    aten.alias.default,
    aten.alias_copy.default,
    aten.detach.default,
    aten.lift_fresh_copy.default,
    aten.lift_fresh.default,
    aten.contiguous.default,
)
def identity(e: Emitter, x: Val, **_: Any) -> Val:
    return x


@lower(aten.copy.default)
def copy(e: Emitter, x: Val, src: Any, non_blocking: bool = False) -> Val:
    return e.broadcast(e.value(src, x.dtype), x.shape)
