"""Bessel's functions and Airy's, by the formulas of ATen's kernels: rational functions and Chebyshev series, one near
zero and one far from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from ..emitter import Emitter, Val, opmath
from . import bessel_tables as tables
from . import lower
from .formula import Term

aten = torch.ops.aten
_Function = Callable[[Term], Term]


def pointwise(*overloads: Any) -> Callable[[_Function], _Function]:
    """Registers a function of one variable, computed in opmath of the result's dtype and rounded once."""

    def register(fn: _Function) -> _Function:
        def lowering(e: Emitter, x: Val) -> Val:
            dtype = e.promote(x, kind=Kind.INT_TO_FLOAT)[1]
            wide = e.cast(e.cast(x, dtype), opmath(dtype))
            return e.cast(fn(Term(e, wide)).value, dtype)

        lower(*overloads)(lowering)
        return fn

    return register


def _ratio(x: Term, above: tuple[float, ...], below: tuple[float, ...]) -> Term:
    return x.polynomial(above) / x.polynomial(below)


# ---- J and Y: a rational function up to 5, waves beyond


def _waves(x: Term, order: int) -> tuple[Term, Term, Term, Term]:
    """Amplitudes of the two waves far from zero, and the waves: cosine and sine of the shifted phase."""
    inverse = 5.0 / x
    square = inverse * inverse
    even, odd = (tables.J0_P, tables.J0_P_BELOW), (tables.J0_Q, tables.J0_Q_BELOW)
    if order == 1:
        even, odd = (tables.J1_P, tables.J1_P_BELOW), (tables.J1_Q, tables.J1_Q_BELOW)
    phase = x - (0.25 + 0.5 * order) * math.pi
    scale = math.sqrt(2.0 / math.pi) / x.function("sqrt")
    p, q = _ratio(square, *even) * scale, inverse * _ratio(square, *odd) * scale
    return p, q, phase.function("cos"), phase.function("sin")


@pointwise(aten.special_bessel_j0.default)
def j0(x: Term) -> Term:
    x = abs(x)
    square = x * x
    near = (square - 5.78318596294678452118) * (square - 30.4712623436620863991)
    near = near * _ratio(square, tables.J0, tables.J0_BELOW)
    near = (1.0 - square * 0.25).chosen(x.is_("lt", 1e-5), near)
    p, q, cosine, sine = _waves(x, 0)
    return near.chosen(x.is_("le", 5.0), p * cosine - q * sine)


@pointwise(aten.special_bessel_j1.default)
def j1(x: Term) -> Term:
    size = abs(x)
    square = size * size
    near = _ratio(square, tables.J1, tables.J1_BELOW) * size
    near = near * (square - 14.6819706421238932572) * (square - 49.2184563216946036703)
    p, q, cosine, sine = _waves(size, 1)
    value = near.chosen(size.is_("le", 5.0), p * cosine - q * sine)
    return (-value).chosen(x.is_("lt", 0.0), value)


@pointwise(aten.special_bessel_y0.default)
def y0(x: Term) -> Term:
    near = _ratio(x * x, tables.Y0, tables.Y0_BELOW) + x.function("log") * (2.0 / math.pi) * j0(x)
    near = near.instead(x.is_("eq", 0.0), -math.inf)
    p, q, cosine, sine = _waves(x, 0)
    return near.chosen(x.is_("le", 5.0), p * sine + q * cosine)


@pointwise(aten.special_bessel_y1.default)
def y1(x: Term) -> Term:
    near = x * _ratio(x * x, tables.Y1, tables.Y1_BELOW) + (j1(x) * x.function("log") - 1.0 / x) * (2.0 / math.pi)
    near = near.instead(x.is_("eq", 0.0), -math.inf)
    p, q, cosine, sine = _waves(x, 1)
    return near.chosen(x.is_("le", 5.0), p * sine + q * cosine)


@pointwise(aten.special_spherical_bessel_j0.default)
def spherical_j0(x: Term) -> Term:
    square = x * x
    series = square.polynomial([(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)])
    value = series.chosen(abs(x).is_("lt", 0.5), x.function("sin") / x)
    return value.instead(abs(x).is_("eq", math.inf), 0.0)


# ---- I and K: Chebyshev series of the scaled functions


def _negligible(x: Term) -> float:
    """Of a sum of Chebyshev coefficients; f64 takes all of them."""
    return 0.0 if x.value.dtype is torch.float64 else 1e-10


def _i_scaled(x: Term, order: int) -> tuple[Term, Term]:
    """exp(-x) I(x) for x >= 0: near, where for order 1 the factor x is left out, and far."""
    close, distant = (tables.I0_NEAR, tables.I0_FAR) if order == 0 else (tables.I1_NEAR, tables.I1_FAR)
    near = (x * 0.5 - 2.0).chebyshev(close, _negligible(x))
    return near, (32.0 / x - 2.0).chebyshev(distant, _negligible(x)) / x.function("sqrt")


@pointwise(aten.special_i0e.default)
def i0e(x: Term) -> Term:
    x = abs(x)
    near, far = _i_scaled(x, 0)
    return near.chosen(x.is_("le", 8.0), far)


@pointwise(aten.i0.default, aten.special_modified_bessel_i0.default)
def i0(x: Term) -> Term:
    return abs(x).function("exp") * i0e(x)


@pointwise(aten.special_i1e.default)
def i1e(x: Term) -> Term:
    size = abs(x)
    near, far = _i_scaled(size, 1)
    value = (near * size).chosen(size.is_("le", 8.0), far)
    return (-value).chosen(x.is_("lt", 0.0), value)


@pointwise(aten.special_i1.default, aten.special_modified_bessel_i1.default)
def i1(x: Term) -> Term:
    return abs(x).function("exp") * i1e(x)


def _k(order: int, scaled: bool) -> _Function:
    def k(x: Term) -> Term:
        close, distant = (tables.K0_NEAR, tables.K0_FAR) if order == 0 else (tables.K1_NEAR, tables.K1_FAR)
        near = (x * x - 2.0).chebyshev(close, _negligible(x))
        logarithm = (x * 0.5).function("log")
        near = near - logarithm * i0(x) if order == 0 else logarithm * i1(x) + near / x
        far = (8.0 / x - 2.0).chebyshev(distant, _negligible(x)) / x.function("sqrt")
        if scaled:
            near = near * x.function("exp")
        else:
            far = far * (-x).function("exp")
        value = near.chosen(x.is_("le", 2.0), far)
        return value.instead(x.is_("lt", 0.0), math.nan).instead(x.is_("eq", 0.0), math.inf)

    return k


pointwise(aten.special_modified_bessel_k0.default)(_k(0, False))
pointwise(aten.special_modified_bessel_k1.default)(_k(1, False))
pointwise(aten.special_scaled_modified_bessel_k0.default)(_k(0, True))
pointwise(aten.special_scaled_modified_bessel_k1.default)(_k(1, True))


# ---- Airy's function: waves below -2.09, a power series up to 2.09, decay beyond


@pointwise(aten.special_airy_ai.default)
def airy_ai(x: Term) -> Term:
    size = abs(x)
    root = size.function("sqrt")
    zeta = size * 2.0 * root / 3.0
    inverse = 1.0 / zeta
    square = inverse * inverse
    scale = 1.0 / (math.sqrt(math.pi) * root.function("sqrt"))
    phase = zeta + 0.25 * math.pi
    cosine = inverse * _ratio(square, tables.AIRY_COSINE, tables.AIRY_COSINE_BELOW)
    sine = 1.0 + square * _ratio(square, tables.AIRY_SINE, tables.AIRY_SINE_BELOW)
    waves = scale * (phase.function("sin") * sine - phase.function("cos") * cosine)
    decay = scale * _ratio(inverse, tables.AIRY_DECAY, tables.AIRY_DECAY_BELOW) * 0.5 * (-zeta).function("exp")
    value = waves.chosen(x.is_("lt", -2.09), decay.chosen(x.is_("ge", 2.09), _airy_series(x)))
    value = value.instead(x.is_("gt", 103.892), 0.0)
    return value.instead(size.is_("eq", math.inf), math.nan)


def _airy_series(x: Term) -> Term:
    """The two series of the differential equation's solutions in x^3, as far as their terms count up to 2.09."""
    cube = x * x * x
    terms = 13 if x.value.dtype is torch.float64 else 8
    first = cube.polynomial(
        [1.0 / math.prod((3 * i - 1) * 3 * i for i in range(1, k + 1)) for k in range(terms, -1, -1)]
    )
    second = cube.polynomial(
        [1.0 / math.prod(3 * i * (3 * i + 1) for i in range(1, k + 1)) for k in range(terms, -1, -1)]
    )
    return first * 0.355028053887817239260 - x * second * 0.258819403792806798405
