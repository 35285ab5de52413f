"""Elementary functions: exponentials, logarithms, powers, trigonometry, roundings."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from ..emitter import Declined, Emitter, Val, is_float, opmath
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
    "asinh": aten.asinh,
    "acosh": aten.acosh,
    "atanh": aten.atanh,
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


@lower(aten.tanh.default)
def tanh(e: Emitter, x: Val) -> Val:
    if e.trains_f32_on_cpu and x.dtype is torch.float32:
        raise Declined("eager's bits are those of a vendor's function")
    return _unary_float("tanh")(e, x)


@lower(aten.sigmoid.default)
def sigmoid(e: Emitter, x: Val) -> Val:
    """By its definition where eager's vectors are of f32: its bits, and 0 where e^-x overflows."""
    x = e.cast(x, e.promote(x, kind=Kind.INT_TO_FLOAT)[1])
    if e.on_gpu or opmath(x.dtype) is not torch.float32:
        return e.emit("sigmoid", x)
    grown = e.emit("exp", e.emit("neg", e.cast(x, torch.float32)))
    return e.cast(e.emit("reciprocal", e.add(grown, 1)), x.dtype)


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


@lower(aten.pow.Tensor_Scalar)
def pow_scalar(e: Emitter, x: Val, exponent: Any) -> Val:
    """The special exponents of eager's kernel; each product rounds to the dtype. f16 has none but 2: all in f32."""
    dtype = e.promote(x, exponent, kind=Kind.DEFAULT)[1]
    if isinstance(exponent, (int, float)) and exponent == 0:
        return e.full(1, x.shape, dtype)
    x = e.cast(x, dtype)
    if exponent == 1:
        return x
    power = lambda: e.emit("pow", x, e.operand(e.rounded(exponent, dtype) if e.reduced_on_cpu() else exponent, dtype))  # noqa: E731
    square = lambda: e.emit("mul", x, x)  # noqa: E731
    if exponent == 2:
        return square()
    if dtype == torch.float16:
        if exponent == 3:
            wide = e.cast(x, torch.float32)
            return e.cast(e.emit("mul", e.emit("mul", wide, wide), wide), dtype)
        return power()
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
    return power()


@lower(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow_tensor(e: Emitter, a: Any, b: Val) -> Val:
    dtype = e.promote(a, b)[1]
    operands = (e.value(a, dtype), e.operand(b, dtype))
    return e.emit("pow", *operands)


@lower(aten.square.default)
def square(e: Emitter, x: Val) -> Val:
    return pow_scalar(e, x, 2)


@lower(aten.hypot.default)
def hypot(e: Emitter, a: Val, b: Val) -> Val:
    """In f64, where no square of an f32 overflows or vanishes. f64 itself is scaled by the larger operand. Infinite if
    either is."""
    dtype = e.promote(a, b)[1]
    a, b = (e.emit("abs", e.cast(e.cast(v, dtype), torch.float64)) for v in (a, b))
    if dtype == torch.float64:
        most, least = e.emit("maximum", a, b), e.emit("minimum", a, b)
        ratio = e.div(least, most)
        scaled = e.mul(most, e.emit("sqrt", e.add(e.mul(ratio, ratio), 1)))
        value = e.where(e.compare("eq", least, 0.0), most, scaled, dtype)
    else:
        value = e.emit("sqrt", e.add(e.mul(a, a), e.mul(b, b)))
    unbounded = e.emit("bit_or", e.compare("eq", a, math.inf), e.compare("eq", b, math.inf))
    return e.cast(e.cast(e.where(unbounded, math.inf, value, value.dtype), opmath(dtype)), dtype)


@lower(aten.angle.default)
def angle(e: Emitter, x: Val) -> Val:
    """Of real numbers: pi for negative ones, else 0; NaN stays."""
    x = e.cast(x, e.promote(x, kind=Kind.INT_TO_FLOAT)[1])
    turned = e.where(e.compare("lt", x, 0), math.pi, 0.0, x.dtype)
    return e.where(e.emit("is_nan", x), x, turned, x.dtype)


@lower(aten.round.decimals)
def round_decimals(e: Emitter, x: Val, *, decimals: int) -> Val:
    """Eager's own: scaled by a power of ten, rounded, scaled back, each in opmath."""
    if not x.dtype.is_floating_point:
        return x
    wide = e.cast(x, opmath(x.dtype))
    ten = 10.0 ** abs(decimals)
    down, up = (e.div, e.mul) if decimals < 0 else (e.mul, e.div)
    return e.cast(up(e.emit("round", down(wide, ten)), ten), x.dtype)


@lower(aten.ldexp.Tensor)
def ldexp(e: Emitter, x: Val, exponent: Val) -> Val:
    """x * 2^exponent, as eager writes it."""
    power = e.cast(exponent, e.promote(exponent, kind=Kind.INT_TO_FLOAT)[1])
    return e.binary("mul", x, e.emit("exp2", power))


@lower(aten.frexp.Tensor)
def frexp(e: Emitter, x: Val) -> tuple[Val, Val]:
    """(fraction in [0.5, 1), exponent). The logarithm may miss it by one; scaling by powers of two is exact."""
    wide = e.cast(x, opmath(x.dtype))
    dtype = wide.dtype
    plain = e.emit("bit_and", e.compare("lt", e.emit("abs", wide), math.inf), e.compare("ne", wide, 0.0))
    size = e.where(plain, e.emit("abs", wide), 1.0, dtype)
    power = e.add(e.emit("floor", e.emit("log2", size)), 1)
    half = e.emit("floor", e.mul(power, 0.5))
    fraction = size
    for part in (half, e.sub(power, half)):  # the whole power may be no number of the dtype
        fraction = e.mul(fraction, e.emit("exp2", e.emit("neg", part)))
    low, high = e.compare("lt", fraction, 0.5), e.compare("ge", fraction, 1.0)
    fraction = e.where(low, e.mul(fraction, 2), e.where(high, e.mul(fraction, 0.5), fraction, dtype), dtype)
    power = e.where(low, e.sub(power, 1), e.where(high, e.add(power, 1), power, dtype), dtype)
    fraction = e.where(plain, e.emit("copysign", fraction, wide), wide, dtype)
    return e.cast(fraction, x.dtype), e.cast(e.where(plain, power, 0.0, dtype), torch.int32)
