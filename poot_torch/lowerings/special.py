"""Special functions by the formulas of ATen's kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from ..emitter import Declined, Emitter, Val, opmath
from . import lower
from .formula import Term

aten = torch.ops.aten


def _polynomial(e: Emitter, x: Val, coefficients: Sequence[float]) -> Val:
    """Horner's scheme; the leading coefficient comes first."""
    value: Val = e.full(coefficients[0], (), x.dtype)
    for c in coefficients[1:]:
        value = e.add(e.mul(value, x), c)
    return value


def _wide(e: Emitter, x: Val) -> tuple[torch.dtype, Val]:
    dtype = e.promote(x, kind=Kind.INT_TO_FLOAT)[1]
    return dtype, e.cast(e.cast(x, dtype), opmath(dtype))


def vector_erf(e: Emitter, x: Val) -> Val:
    """Eager's vector code: 1 - t r(t) e^(-x^2) with t = 1 / (1 + p |x|), absolute error 1.5e-7
    (Abramowitz and Stegun, 7.1.26). What it loses near 0 shows in f16 and bf16."""
    fma = lambda a, b, c: e.emit("fma", a, b, e.lit(c, x.dtype))  # noqa: E731
    t = e.emit("reciprocal", fma(e.emit("abs", x), e.lit(0.3275911, x.dtype), 1.0))
    r = fma(t, e.lit(1.061405429, x.dtype), -1.453152027)
    for c in (1.421413741, -0.284496736, 0.254829592):
        r = fma(r, t, c)
    decay = e.emit("exp", e.emit("neg", e.mul(x, x)))
    value = fma(e.emit("neg", e.mul(decay, t)), r, 1.0)
    return e.mul(e.emit("copysign", e.full(1.0, (), x.dtype), x), value)


@lower(aten.erf.default)
def erf(e: Emitter, x: Val) -> Val:
    dtype, wide = _wide(e, x)
    if not e.reduced_on_cpu():
        return e.emit("erf", e.cast(x, dtype))
    return e.cast(vector_erf(e, wide), dtype)


@lower(aten.erfinv.default)
def erfinv(e: Emitter, x: Val) -> Val:
    """Two rational approximations, then two steps of Newton's method."""
    dtype, y = _wide(e, x)
    a = e.emit("abs", y)
    square = e.mul(y, y)
    numerator = _polynomial(e, square, (-0.140543331, 0.914624893, -1.645349621, 0.886226899))
    denominator = _polynomial(e, square, (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
    centre = e.div(e.mul(y, numerator), denominator)
    z = e.emit("sqrt", e.emit("neg", e.emit("log", e.mul(e.sub(e.full(1.0, (), y.dtype), a), 0.5))))
    outer = e.div(
        e.emit("copysign", _polynomial(e, z, (1.641345311, 3.429567803, -1.624906493, -1.970840454)), y),
        _polynomial(e, z, (1.637067800, 3.543889200, 1.0)),
    )
    value = e.where(e.compare("le", a, 0.7), centre, outer, y.dtype)
    for _ in range(2):
        slope = e.mul(e.emit("exp", e.emit("neg", e.mul(value, value))), 2.0 / math.sqrt(math.pi))
        value = e.sub(value, e.div(e.sub(e.emit("erf", value), y), slope))
    value = e.where(e.compare("eq", a, 1.0), e.emit("copysign", e.lit(math.inf, y.dtype), y), value, y.dtype)
    return e.cast(e.where(e.compare("gt", a, 1.0), math.nan, value, y.dtype), dtype)


_DIGAMMA = (
    8.33333333333333333333e-2,
    -2.10927960927960927961e-2,
    7.57575757575757575758e-3,
    -4.16666666666666666667e-3,
    3.96825396825396825397e-3,
    -8.33333333333333333333e-3,
    8.33333333333333333333e-2,
)


@lower(aten.digamma.default)
def digamma(e: Emitter, x: Val) -> Val:
    """Recurrence up to ten, then the asymptotic series; reflected for negative numbers."""
    dtype, v = _wide(e, x)
    negative = e.compare("lt", v, 0.0)
    one = e.full(1.0, (), v.dtype)
    at = e.where(negative, e.sub(one, v), v, v.dtype)
    total = e.full(0.0, (), v.dtype)
    for _ in range(10):
        below = e.compare("lt", at, 10.0)
        total = e.where(below, e.sub(total, e.emit("reciprocal", at)), total, v.dtype)
        at = e.where(below, e.add(at, 1), at, v.dtype)
    z = e.emit("reciprocal", e.mul(at, at))
    series = e.sub(e.sub(e.emit("log", at), e.div(e.full(0.5, (), v.dtype), at)), e.mul(z, _polynomial(e, z, _DIGAMMA)))
    value = e.add(total, series)
    fraction = e.mul(e.sub(v, e.emit("trunc", v)), math.pi)
    cotangent = e.div(e.mul(e.emit("cos", fraction), math.pi), e.emit("sin", fraction))
    reflected = e.where(e.compare("eq", fraction, 0.0), math.nan, e.sub(value, cotangent), v.dtype)
    value = e.where(negative, reflected, value, v.dtype)
    pole = e.emit("copysign", e.lit(math.inf, v.dtype), e.emit("neg", v))
    return e.cast(e.where(e.compare("eq", v, 0.0), pole, value, v.dtype), dtype)


def _trigamma(e: Emitter, x: Val) -> Val:
    """Six steps of the recurrence, then the asymptotic series; reflected below a half."""
    dtype, wide = _wide(e, x)
    v = Term(e, wide)
    reflects = v.is_("lt", 0.5)
    wave = (v * math.pi).function("sin")
    at = (1.0 - v).chosen(reflects, v)
    total = (-math.pi * math.pi / (wave * wave)).chosen(reflects, Term(e, e.full(0.0, (), wide.dtype)))
    for _ in range(6):
        total = total + 1.0 / (at * at)
        at = at + 1.0
    inverse = 1.0 / (at * at)
    series = inverse * (1.0 / 6 - inverse * (1.0 / 30 - inverse * (1.0 / 42)))
    total = total + (1.0 + 1.0 / (at * 2.0) + series) / at
    return e.cast((-total).chosen(reflects, total).value, dtype)


@lower(aten.polygamma.default)
def polygamma(e: Emitter, n: int, x: Val) -> Val:
    if n > 1:
        raise Declined("a sum whose length depends on data")
    return digamma(e, x) if n == 0 else _trigamma(e, x)


_STIRLING = (-1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12)
# lgamma(z) / ((z - 1) (z - 2)) in z - 3/2, |z - 3/2| <= 3/4: interpolated at Chebyshev's nodes, relative error 7e-12.
_LGAMMA_BETWEEN_ROOTS = (
    -8.136837965349073e-05,
    0.00012802710027382018,
    4.023509757863151e-06,
    -4.6640392002779205e-06,
    -0.00021282793531485339,
    0.000340141795859036,
    -0.00042261448473627876,
    0.000687418181461066,
    -0.0011675144372430058,
    0.0019277737172198992,
    -0.003211727377219261,
    0.005445914616012691,
    -0.009425641708385956,
    0.016797128807193775,
    -0.031308487091794374,
    0.06291140043342998,
    -0.145959895915729,
    0.4831289505432102,
)
_LGAMMA_LARGEST = float.fromhex("0x1.84c272p+121")  # beyond it eager's f32 is infinite, a little early


def _lgamma_above_half(e: Emitter, z: Val, dtype: torch.dtype) -> Val:
    """Raised to eight and above by the recurrence, then Stirling's series. f32 and narrower see what that loses near
    the roots, 1 and 2, which are factors of a polynomial there."""
    product = e.full(1.0, (), z.dtype)
    at = z
    for _ in range(8):
        below = e.compare("lt", at, 8.0)
        product = e.where(below, e.mul(product, at), product, z.dtype)
        at = e.where(below, e.add(at, 1), at, z.dtype)
    inverse = e.emit("reciprocal", at)
    series = e.mul(inverse, _polynomial(e, e.mul(inverse, inverse), _STIRLING))
    main = e.sub(e.mul(e.sub(at, 0.5), e.emit("log", at)), e.sub(at, 0.5 * math.log(2.0 * math.pi)))
    value = e.sub(e.add(main, series), e.emit("log", product))
    limit = math.inf if dtype == torch.float64 or e.meta.device.type != "cpu" else _LGAMMA_LARGEST
    value = e.where(e.compare("ge" if limit == math.inf else "gt", z, limit), math.inf, value, z.dtype)
    roots = e.mul(e.sub(z, 1), e.sub(z, 2))
    if dtype == torch.float64:
        return e.where(e.compare("eq", roots, 0.0), 0.0, value, z.dtype)
    centred = e.sub(z, 1.5)
    between = e.add(e.mul(roots, _polynomial(e, centred, _LGAMMA_BETWEEN_ROOTS)), 0)  # no negative zero
    return e.where(e.compare("le", e.emit("abs", centred), 0.75), between, value, z.dtype)


@lower(aten.lgamma.default)
def lgamma(e: Emitter, x: Val) -> Val:
    """In f64: near its zeros the terms cancel. Reflected below a half; infinite at the poles."""
    dtype = e.promote(x, kind=Kind.INT_TO_FLOAT)[1]
    v = e.cast(e.cast(x, dtype), torch.float64)
    reflects = e.compare("lt", v, 0.5)
    value = _lgamma_above_half(e, e.where(reflects, e.sub(e.full(1.0, (), v.dtype), v), v, v.dtype), dtype)
    turn = e.mul(e.sub(v, e.emit("round", v)), math.pi)
    wave = e.emit("log", e.div(e.full(math.pi, (), v.dtype), e.emit("abs", e.emit("sin", turn))))
    endless = e.emit("bit_or", e.compare("eq", e.emit("abs", v), math.inf), e.compare("eq", wave, math.inf))
    reflected = e.where(endless, math.inf, e.sub(wave, value), v.dtype)
    return e.cast(e.cast(e.where(reflects, reflected, value, v.dtype), opmath(dtype)), dtype)


@lower(aten.nextafter.default)
def nextafter(e: Emitter, x: Val, y: Val) -> Val:
    """One step is less than the unit of the last place and more than half of it, added and rounded."""
    dtype = e.promote(x, y)[1]
    x, y = e.cast(x, dtype), e.cast(y, dtype)
    info = torch.finfo(dtype)
    wide = opmath(dtype)
    v, magnitude = e.cast(x, wide), e.cast(e.emit("abs", x), wide)
    half_unit = info.eps / 2
    step = e.emit("maximum", e.mul(magnitude, half_unit * (1 + info.eps)), e.lit(info.smallest_normal * info.eps, wide))
    stepped = e.where(e.compare("lt", x, y), e.add(v, step), e.sub(v, step), wide)
    size = e.where(e.compare("eq", magnitude, math.inf), info.max, e.emit("abs", stepped), wide)
    kept = e.where(e.compare("eq", x, 0.0), stepped, e.emit("copysign", size, v), wide)
    moved = e.where(e.compare("eq", x, y), y, e.cast(kept, dtype), dtype)
    return e.where(e.emit("is_nan", y), y, moved, dtype)


def _times_logarithm(op: str) -> Any:
    """0 where x is, whatever y is but NaN. Eager rounds the logarithm of f16 and bf16 before it multiplies."""

    def fn(e: Emitter, x: Any, y: Any) -> Val:
        dtype = e.promote(x, y, kind=Kind.INT_TO_FLOAT)[1]
        x, y = e.value(x, dtype), e.value(y, dtype)
        product = e.emit("mul", x, e.emit(op, y))
        value = e.where(e.compare("eq", x, 0.0), 0.0, product, dtype)
        return e.where(e.emit("is_nan", y), math.nan, value, dtype)

    return fn


lower(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)(_times_logarithm("log"))
lower(
    aten.special_xlog1py.default,
    aten.special_xlog1py.self_scalar,
    aten.special_xlog1py.other_scalar,
)(_times_logarithm("log1p"))


@lower(aten.logaddexp2.default)
def logaddexp2(e: Emitter, a: Val, b: Val) -> Val:
    """The larger plus log2(1 + 2^-difference). Eager's vector code adds without rounding the product, which f16 and
    bf16 show where the sum cancels; an infinite operand that equals the other is the result."""
    dtype = e.promote(a, b)[1]
    wide = opmath(dtype)
    a, b = e.cast(e.cast(a, dtype), wide), e.cast(e.cast(b, dtype), wide)
    first = e.compare("ge", a, b)
    most, least = e.where(first, a, b, wide), e.where(first, b, a, wide)
    logarithm, to_base = e.emit("log1p", e.emit("exp2", e.sub(least, most))), e.lit(1.0 / math.log(2.0), wide)
    fused = e.reduced_on_cpu()
    value = e.emit("fma", logarithm, to_base, most) if fused else e.add(most, e.emit("mul", logarithm, to_base))
    endless = e.emit("bit_and", e.compare("eq", a, b), e.compare("eq", e.emit("abs", a), math.inf))
    return e.cast(e.where(endless, a, value, wide), dtype)
