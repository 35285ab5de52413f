"""Special functions by the formulas of ATen's kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from ..emitter import Emitter, Val, opmath
from . import lower

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
