"""Elementary functions of complex tensors, by their real and imaginary parts.

Square roots and inverse functions follow Kahan's formulas, which keep their branch cuts and do not cancel.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..complex_pairs import part_dtype
from ..emitter import ComplexVal, Emitter, Val, normalize_axes
from .complex_arithmetic import minus, over, plus, scaled, times
from .complex_numbers import lower_complex, parts
from .elementary import hypot
from .reductions import trailing

aten = torch.ops.aten
_BEYOND = 40.0  # where a hyperbolic tangent of half of it is 1


def _number(e: Emitter, like: ComplexVal, value: complex) -> ComplexVal:
    return parts(e, value, like.re.dtype)


def _zero_kept(e: Emitter, im: Val, product: Val) -> Val:
    """The imaginary part of a product with sin(im): zero for a real number, though the other factor be infinite."""
    return e.where(e.compare("eq", im, 0.0), im, product, im.dtype)


def _exp(e: Emitter, x: ComplexVal) -> ComplexVal:
    length = e.emit("exp", x.re)
    im = e.mul(length, e.emit("sin", x.im))
    return ComplexVal(e.mul(length, e.emit("cos", x.im)), _zero_kept(e, x.im, im))


def _log(e: Emitter, x: ComplexVal) -> ComplexVal:
    return ComplexVal(e.emit("log", hypot(e, x.re, x.im)), e.emit("atan2", x.im, x.re))


def _sqrt(e: Emitter, x: ComplexVal) -> ComplexVal:
    dtype = x.re.dtype
    length, real = hypot(e, x.re, x.im), e.emit("abs", x.re)
    large = e.emit("sqrt", e.add(e.mul(length, 0.5), e.mul(real, 0.5)))
    small = e.div(e.mul(e.emit("abs", x.im), 0.5), large)
    small = e.where(e.compare("eq", large, 0.0), 0.0, small, dtype)
    right = e.compare("ge", x.re, 0.0)
    im = e.where(right, small, large, dtype)
    return ComplexVal(e.where(right, large, small, dtype), e.emit("copysign", im, x.im))


def _sinh(e: Emitter, x: ComplexVal) -> ComplexVal:
    re = e.mul(e.emit("sinh", x.re), e.emit("cos", x.im))
    return ComplexVal(re, e.mul(e.emit("cosh", x.re), e.emit("sin", x.im)))


def _cosh(e: Emitter, x: ComplexVal) -> ComplexVal:
    re = e.mul(e.emit("cosh", x.re), e.emit("cos", x.im))
    return ComplexVal(re, e.mul(e.emit("sinh", x.re), e.emit("sin", x.im)))


def _tanh(e: Emitter, x: ComplexVal) -> ComplexVal:
    """sinh 2x + i sin 2y over cosh 2x + cos 2y, with the sum in the form that does not cancel near i*pi/2."""
    dtype = x.re.dtype
    doubled = e.add(x.re, x.re)
    bounded = e.emit("maximum", e.emit("minimum", doubled, e.lit(_BEYOND, dtype)), e.lit(-_BEYOND, dtype))
    half = e.mul(bounded, 0.5)
    sinh, cos = e.emit("sinh", half), e.emit("cos", x.im)
    below = e.add(e.mul(sinh, sinh), e.mul(cos, cos))
    re = e.div(e.mul(sinh, e.emit("cosh", half)), below)
    im = e.div(e.mul(e.emit("sin", x.im), cos), below)
    return ComplexVal(re, im)


def _asin_parts(e: Emitter, x: ComplexVal) -> tuple[ComplexVal, ComplexVal]:
    one = _number(e, x, 1)
    return _sqrt(e, minus(e, one, x)), _sqrt(e, plus(e, one, x))


def _cross(e: Emitter, a: ComplexVal, b: ComplexVal) -> Val:
    """The imaginary part of conj(a) * b."""
    return e.sub(e.mul(a.re, b.im), e.mul(a.im, b.re))


def _inner(e: Emitter, a: ComplexVal, b: ComplexVal) -> Val:
    """The real part of a * b."""
    return e.sub(e.mul(a.re, b.re), e.mul(a.im, b.im))


def _asin(e: Emitter, x: ComplexVal) -> ComplexVal:
    low, high = _asin_parts(e, x)
    return ComplexVal(e.emit("atan2", x.re, _inner(e, low, high)), e.emit("asinh", _cross(e, low, high)))


def _acos(e: Emitter, x: ComplexVal) -> ComplexVal:
    low, high = _asin_parts(e, x)
    re = e.mul(e.emit("atan2", low.re, high.re), 2)
    return ComplexVal(re, e.emit("asinh", _cross(e, high, low)))


def _acosh(e: Emitter, x: ComplexVal) -> ComplexVal:
    one = _number(e, x, 1)
    low, high = _sqrt(e, minus(e, x, one)), _sqrt(e, plus(e, x, one))
    re = e.emit("asinh", e.add(e.mul(low.re, high.re), e.mul(low.im, high.im)))
    return ComplexVal(re, e.mul(e.emit("atan2", low.im, high.re), 2))


def _atanh(e: Emitter, x: ComplexVal) -> ComplexVal:
    """log1p of what is positive, since near -1 it cancels; the real part is odd."""
    one = e.full(1.0, (), x.re.dtype)
    square, size = e.mul(x.im, x.im), e.emit("abs", x.re)
    left = e.sub(one, size)
    re = e.mul(e.emit("log1p", e.div(e.mul(size, 4), e.add(e.mul(left, left), square))), 0.25)
    im = e.emit("atan2", e.add(x.im, x.im), e.sub(e.mul(left, e.add(size, 1)), square))
    return ComplexVal(e.emit("copysign", re, x.re), e.mul(im, 0.5))


def _turned(fn: Any) -> Any:
    """f(z) = -i g(iz): the circular function of a hyperbolic one, and the reverse."""

    def of(e: Emitter, x: ComplexVal) -> ComplexVal:
        y = fn(e, ComplexVal(e.emit("neg", x.im), x.re))
        return ComplexVal(y.im, e.emit("neg", y.re))

    return of


def _cos(e: Emitter, x: ComplexVal) -> ComplexVal:
    return _cosh(e, ComplexVal(e.emit("neg", x.im), x.re))


def _expm1(e: Emitter, x: ComplexVal) -> ComplexVal:
    half = e.emit("sin", e.mul(x.im, 0.5))
    re = e.sub(e.mul(e.emit("expm1", x.re), e.emit("cos", x.im)), e.mul(e.mul(half, half), 2))
    return ComplexVal(re, e.mul(e.emit("exp", x.re), e.emit("sin", x.im)))


def _log1p(e: Emitter, x: ComplexVal) -> ComplexVal:
    above = e.add(x.re, 1)
    near = e.mul(e.emit("log1p", e.add(e.mul(x.re, e.add(x.re, 2)), e.mul(x.im, x.im))), 0.5)
    far = e.emit("log", hypot(e, above, x.im))
    small = e.compare("lt", hypot(e, x.re, x.im), 0.5)
    return ComplexVal(e.where(small, near, far, far.dtype), e.emit("atan2", x.im, above))


def _sigmoid(e: Emitter, x: ComplexVal) -> ComplexVal:
    one = _number(e, x, 1)
    return over(e, one, plus(e, one, _exp(e, ComplexVal(e.emit("neg", x.re), e.emit("neg", x.im)))))


def _silu(e: Emitter, x: ComplexVal) -> ComplexVal:
    return over(e, x, plus(e, _number(e, x, 1), _exp(e, ComplexVal(e.emit("neg", x.re), e.emit("neg", x.im)))))


def _rsqrt(e: Emitter, x: ComplexVal) -> ComplexVal:
    return over(e, _number(e, x, 1), _sqrt(e, x))


def _pow(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    """e^(b log a); a power of zero is zero, or one."""
    value = _exp(e, times(e, b, _log(e, a)))
    base, exponent = (e.emit("bit_and", e.compare("eq", v.re, 0.0), e.compare("eq", v.im, 0.0)) for v in (a, b))
    re = e.where(exponent, 1.0, e.where(base, 0.0, value.re, value.re.dtype), value.re.dtype)
    none = e.emit("bit_or", base, exponent)
    return ComplexVal(re, e.where(none, 0.0, value.im, value.im.dtype))


_FUNCTIONS = {
    "exp": _exp,
    "exp2": lambda e, x: _exp(e, scaled(e, x, math.log(2.0))),
    "expm1": _expm1,
    "log": _log,
    "log2": lambda e, x: scaled(e, _log(e, x), 1.0 / math.log(2.0)),
    "log10": lambda e, x: scaled(e, _log(e, x), 1.0 / math.log(10.0)),
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "sin": _turned(_sinh),
    "cos": _cos,
    "tan": _turned(_tanh),
    "asin": _asin,
    "acos": _acos,
    "atan": _turned(_atanh),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asinh": _turned(_asin),
    "acosh": _acosh,
    "atanh": _atanh,
    "sigmoid": _sigmoid,
    "silu": _silu,
}


def _register(name: str, function: Any) -> None:
    def fn(e: Emitter, x: Any) -> ComplexVal:
        return function(e, parts(e, x, part_dtype(e.meta.dtype)))

    lower_complex(getattr(aten, name).default)(fn)


for _name, _function in _FUNCTIONS.items():
    _register(_name, _function)


@lower_complex(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(e: Emitter, a: Any, b: Any) -> ComplexVal:
    """Small whole and half exponents as eager's kernel has them."""
    dtype = part_dtype(e.meta.dtype)
    if isinstance(b, complex) and b.imag == 0:
        b = b.real
    if isinstance(b, (int, float)):
        base = parts(e, a, dtype)
        square = lambda: times(e, base, base)  # noqa: E731
        special = {
            0: lambda: parts(e, 1, dtype),
            1: lambda: base,
            2: square,
            3: lambda: times(e, square(), base),
            0.5: lambda: _sqrt(e, base),
            -0.5: lambda: _rsqrt(e, base),
            -1: lambda: over(e, parts(e, 1, dtype), base),
            -2: lambda: over(e, parts(e, 1, dtype), square()),
        }.get(b)
        if special is not None:
            found = special()
            return ComplexVal(e.broadcast(found.re, e.out_shape), e.broadcast(found.im, e.out_shape))
    return _pow(e, parts(e, a, dtype), parts(e, b, dtype))


@lower_complex(aten.ldexp.Tensor)
def ldexp(e: Emitter, x: Any, exponent: Any) -> ComplexVal:
    """x * 2^exponent."""
    dtype = part_dtype(e.meta.dtype)
    power = _exp(e, scaled(e, parts(e, exponent, dtype), math.log(2.0)))
    return times(e, parts(e, x, dtype), power)


@lower_complex(aten.logsumexp.default)
def logsumexp(e: Emitter, x: ComplexVal, dim: Any, keepdim: bool = False) -> ComplexVal:
    """Shifted by the largest real part."""
    axes = normalize_axes(dim, x.re.ndim)
    (re, last, back), (im, _, _) = (trailing(e, part, axes) for part in (x.re, x.im))
    top = e.reduce("max", re, last, True)
    top = e.where(e.compare("lt", e.emit("abs", top), math.inf), top, 0.0, re.dtype)
    terms = _exp(e, ComplexVal(e.sub(re, top), im))
    total = _log(e, ComplexVal(e.reduce("sum", terms.re, last, True), e.reduce("sum", terms.im, last, True)))
    found = ComplexVal(e.add(total.re, top), total.im)
    return ComplexVal(*(e.reshape(e.transpose(v, back), e.out_shape) for v in (found.re, found.im)))
