"""Arithmetic, comparisons and reductions of complex tensors, and their way from and to real ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from ..complex_pairs import part_dtype
from ..emitter import ComplexVal, Declined, Emitter, Val, normalize_axes
from . import registry
from .complex_numbers import lower_complex, parts, working_dtype
from .contractions import few_steps, products
from .elementary import hypot
from .reductions import var_mean, vector_norm

aten = torch.ops.aten
_MOST_FACTORS = 64  # of a product over an axis
_MOST_STEPS = 1 << 9  # of a product of matrices


def _operands(e: Emitter, *args: Any) -> list[ComplexVal]:
    return [parts(e, a, part_dtype(e.meta.dtype)) for a in args]


def plus(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    return ComplexVal(e.add(a.re, b.re), e.add(a.im, b.im))


def minus(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    return ComplexVal(e.sub(a.re, b.re), e.sub(a.im, b.im))


def times(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    re = e.sub(e.mul(a.re, b.re), e.mul(a.im, b.im))
    return ComplexVal(re, e.add(e.mul(a.re, b.im), e.mul(a.im, b.re)))


def over(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    """Scaled by the larger part of the divisor, so that no square overflows or vanishes."""
    dtype = b.re.dtype
    scale = e.emit("maximum", e.emit("abs", b.re), e.emit("abs", b.im))
    c, d = e.div(b.re, scale), e.div(b.im, scale)
    square = e.add(e.mul(b.re, c), e.mul(b.im, d))
    re = e.div(e.add(e.mul(a.re, c), e.mul(a.im, d)), square)
    im = e.div(e.sub(e.mul(a.im, c), e.mul(a.re, d)), square)
    by_zero = e.compare("eq", scale, 0.0)
    re, im = (e.where(by_zero, e.div(x, scale), y, dtype) for x, y in ((a.re, re), (a.im, im)))
    return ComplexVal(re, im)


def scaled(e: Emitter, a: ComplexVal, factor: float) -> ComplexVal:
    return ComplexVal(e.mul(a.re, factor), e.mul(a.im, factor))


@lower_complex(aten.add.Tensor, aten.add.Scalar)
def add(e: Emitter, a: Any, b: Any, alpha: Any = 1) -> ComplexVal:
    a, b = _operands(e, a, b)
    return plus(e, a, b if alpha == 1 else times(e, b, *_operands(e, alpha)))


@lower_complex(aten.sub.Tensor, aten.sub.Scalar)
def sub(e: Emitter, a: Any, b: Any, alpha: Any = 1) -> ComplexVal:
    a, b = _operands(e, a, b)
    return minus(e, a, b if alpha == 1 else times(e, b, *_operands(e, alpha)))


@lower_complex(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(e: Emitter, a: Any, b: Any, alpha: Any = 1) -> ComplexVal:
    return sub(e, b, a, alpha)


@lower_complex(aten.mul.Tensor, aten.mul.Scalar)
def mul(e: Emitter, a: Any, b: Any) -> ComplexVal:
    return times(e, *_operands(e, a, b))


@lower_complex(aten.div.Tensor, aten.div.Scalar)
def div(e: Emitter, a: Any, b: Any) -> ComplexVal:
    return over(e, *_operands(e, a, b))


@lower_complex(aten.reciprocal.default)
def reciprocal(e: Emitter, x: Any) -> ComplexVal:
    return over(e, *_operands(e, 1, x))


@lower_complex(aten.square.default)
def square(e: Emitter, x: ComplexVal) -> ComplexVal:
    return times(e, x, x)


@lower_complex(aten.addcmul.default)
def addcmul(e: Emitter, x: Any, a: Any, b: Any, *, value: Any = 1) -> ComplexVal:
    x, a, b, v = _operands(e, x, a, b, value)
    return plus(e, x, times(e, times(e, v, a), b))


@lower_complex(aten.addcdiv.default)
def addcdiv(e: Emitter, x: Any, a: Any, b: Any, *, value: Any = 1) -> ComplexVal:
    x, a, b, v = _operands(e, x, a, b, value)
    return plus(e, x, over(e, times(e, v, a), b))


@lower_complex(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(e: Emitter, start: Any, end: Any, weight: Any) -> ComplexVal:
    a, b, w = _operands(e, start, end, weight)
    small = e.compare("lt", hypot(e, w.re, w.im), 0.5)
    step = minus(e, b, a)
    near, far = plus(e, a, times(e, w, step)), minus(e, b, times(e, step, minus(e, *_operands(e, 1, w))))
    return ComplexVal(*(e.where(small, n, f, n.dtype) for n, f in ((near.re, far.re), (near.im, far.im))))


# ---- from and to real tensors


@lower_complex(aten._conj.default, aten._conj_physical.default, aten.conj_physical.default)
def conj(e: Emitter, x: ComplexVal) -> ComplexVal:
    return ComplexVal(x.re, e.emit("neg", x.im))


@lower_complex(aten.resolve_conj.default, aten.resolve_neg.default)
def same(e: Emitter, x: ComplexVal) -> ComplexVal:
    return x


@lower_complex(aten.view_as_real.default, aten.view_as_real_copy.default)
def view_as_real(e: Emitter, x: ComplexVal) -> Val:
    return e.emit("concat", *(e.unsqueeze(p, x.ndim) for p in (x.re, x.im)), axis=x.ndim)


@lower_complex(aten.view_as_complex.default, aten.view_as_complex_copy.default)
def view_as_complex(e: Emitter, x: Val) -> ComplexVal:
    last = x.ndim - 1
    re, im = (e.reshape(e.slice(x, last, i, i + 1), x.shape[:last]) for i in (0, 1))
    return ComplexVal(re, im)


@lower_complex(aten.complex.default)
def from_parts(e: Emitter, re: Val, im: Val) -> ComplexVal:
    return ComplexVal(e.broadcast(re, e.out_shape), e.broadcast(im, e.out_shape))


@lower_complex(aten.polar.default)
def polar(e: Emitter, length: Val, angle: Val) -> ComplexVal:
    parts = (e.mul(length, e.emit(f, angle)) for f in ("cos", "sin"))
    return ComplexVal(*parts)


@lower_complex(aten.abs.default)
def absolute(e: Emitter, x: ComplexVal) -> Val:
    return hypot(e, x.re, x.im)


@lower_complex(aten.angle.default)
def angle(e: Emitter, x: ComplexVal) -> Val:
    return e.emit("atan2", x.im, x.re)


@lower_complex(aten.sgn.default)
def sgn(e: Emitter, x: ComplexVal) -> ComplexVal:
    length = hypot(e, x.re, x.im)
    zero = e.compare("eq", length, 0.0)
    return ComplexVal(*(e.where(zero, 0.0, e.div(p, length), p.dtype) for p in (x.re, x.im)))


@lower_complex(aten._to_copy.default)
def to_copy(e: Emitter, x: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Any:
    if device is not None and torch.device(device).type != e.meta.device.type:
        raise Declined("copy between devices")
    return cast(e, x, dtype or x.dtype)


@lower_complex(torch.ops.prims.convert_element_type.default)
def cast(e: Emitter, x: Any, dtype: torch.dtype) -> Any:
    if dtype.is_complex:
        return parts(e, x, part_dtype(dtype))
    return truth(e, x) if dtype is torch.bool else e.cast(x.re, dtype)


@lower_complex(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(e: Emitter, *_: Any, **__: Any) -> ComplexVal:
    return _ones(e, e.out_shape, part_dtype(e.meta.dtype))


@lower_complex(aten.eye.default, aten.eye.m)
def eye(e: Emitter, *_: Any, **__: Any) -> ComplexVal:
    rows, cols = e.out_shape
    dtype = part_dtype(e.meta.dtype)
    hit = e.emit("eq", e.iota(cols), e.reshape(e.iota(rows), (rows, 1)))
    return ComplexVal(e.where(hit, 1, 0, dtype), e.full(0, e.out_shape, dtype))


# ---- predicates


def truth(e: Emitter, x: Any) -> Val:
    if isinstance(x, Val):
        return e.cast(x, torch.bool)
    return e.emit("bit_or", e.cast(x.re, torch.bool), e.cast(x.im, torch.bool))


def _equal(e: Emitter, a: Any, b: Any) -> Val:
    dtype = working_dtype(a, b)
    a, b = parts(e, a, dtype), parts(e, b, dtype)
    return e.emit("bit_and", e.compare("eq", a.re, b.re), e.compare("eq", a.im, b.im))


@lower_complex(aten.eq.Tensor, aten.eq.Scalar)
def eq(e: Emitter, a: Any, b: Any) -> Val:
    return _equal(e, a, b)


@lower_complex(aten.ne.Tensor, aten.ne.Scalar)
def ne(e: Emitter, a: Any, b: Any) -> Val:
    return e.emit("bit_not", _equal(e, a, b))


def _of_parts(joined: str, target: Any) -> None:
    def fn(e: Emitter, x: ComplexVal) -> Val:
        real = registry()[target]
        return e.emit(joined, real(e, x.re), real(e, x.im))

    lower_complex(target)(fn)


_of_parts("bit_or", aten.isnan.default)
_of_parts("bit_or", aten.isinf.default)
_of_parts("bit_and", aten.isfinite.default)


def _of_truth(*targets: Any) -> None:
    """Real lowerings that ask only whether a number is zero."""
    for target in targets:

        def fn(e: Emitter, *args: Any, _real: Any = target, **kwargs: Any) -> Val:
            given = [truth(e, a) if isinstance(a, ComplexVal) else a for a in args]
            return registry()[_real](e, *given, **kwargs)

        lower_complex(target)(fn)


_of_truth(aten.logical_not.default, aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default)
_of_truth(aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim, aten.all.dims)


# ---- reductions


def _ones(e: Emitter, shape: Any, dtype: torch.dtype) -> ComplexVal:
    return ComplexVal(e.full(1, shape, dtype), e.full(0, shape, dtype))


def _along(e: Emitter, x: ComplexVal, axis: int, start: int, end: int) -> ComplexVal:
    return ComplexVal(*(e.slice(p, axis, start, end) for p in (x.re, x.im)))


def _joined(e: Emitter, pieces: Sequence[ComplexVal], axis: int) -> ComplexVal:
    if len(pieces) == 1:
        return pieces[0]
    re, im = (e.emit("concat", *parts, axis=axis) for parts in zip(*((p.re, p.im) for p in pieces), strict=True))
    return ComplexVal(re, im)


def _product(e: Emitter, x: ComplexVal, axis: int, keepdim: bool) -> ComplexVal:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise Declined("product of complex numbers over a symbolic axis")
    if size == 0:
        one = _ones(e, [1 if i == axis else d for i, d in enumerate(x.shape)], x.re.dtype)
        x, size = one, 1
    while size > _MOST_FACTORS:  # the halves by each other
        half = size // 2
        both = times(e, _along(e, x, axis, 0, half), _along(e, x, axis, half, 2 * half))
        x, size = _joined(e, (both, _along(e, x, axis, 2 * half, size)) if size % 2 else (both,), axis), half + size % 2
    factors = [_along(e, x, axis, i, i + 1) for i in range(size)]
    total = functools.reduce(functools.partial(times, e), factors)
    if keepdim:
        return total
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return ComplexVal(e.reshape(total.re, shape), e.reshape(total.im, shape))


@lower_complex(aten.prod.default)
def prod(e: Emitter, x: Any, *, dtype: torch.dtype | None = None) -> ComplexVal:
    (x,) = _operands(e, x)
    flat = ComplexVal(*(e.reshape(p, (e.numel(x.shape),)) for p in (x.re, x.im)))
    return _product(e, flat, 0, False)


@lower_complex(aten.prod.dim_int)
def prod_dim(e: Emitter, x: Any, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> ComplexVal:
    (x,) = _operands(e, x)
    return _product(e, x, dim % x.ndim, keepdim) if x.ndim else x


@lower_complex(aten.cumprod.default)
def cumprod(e: Emitter, x: Any, dim: int, *, dtype: torch.dtype | None = None) -> ComplexVal:
    """Each step multiplies by what stands twice as far before."""
    (x,) = _operands(e, x)
    axis = dim % max(x.ndim, 1)
    size = x.shape[axis] if x.ndim else 1
    if not isinstance(size, int):
        raise Declined("running product of complex numbers over a symbolic axis")
    step = 1
    while step < size:
        later = times(e, _along(e, x, axis, step, size), _along(e, x, axis, 0, size - step))
        x = _joined(e, (_along(e, x, axis, 0, step), later), axis)
        step *= 2
    return x


def _variance(e: Emitter, x: ComplexVal, *args: Any, **kwargs: Any) -> tuple[Val, ComplexVal]:
    (v, m), (w, n) = (var_mean(e, p, *args, **kwargs) for p in (x.re, x.im))
    return e.add(v, w), ComplexVal(m, n)


@lower_complex(aten.var.correction)
def var(e: Emitter, x: ComplexVal, *args: Any, **kwargs: Any) -> Val:
    return _variance(e, x, *args, **kwargs)[0]


@lower_complex(aten.std.correction)
def std(e: Emitter, x: ComplexVal, *args: Any, **kwargs: Any) -> Val:
    return e.emit("sqrt", _variance(e, x, *args, **kwargs)[0])


@lower_complex(aten.var_mean.correction)
def var_and_mean(e: Emitter, x: ComplexVal, *args: Any, **kwargs: Any) -> tuple[Val, ComplexVal]:
    return _variance(e, x, *args, **kwargs)


@lower_complex(aten.linalg_vector_norm.default)
def norm(e: Emitter, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Val:
    length = hypot(e, x.re, x.im) if isinstance(x, ComplexVal) else x
    length = e.cast(length, e.meta.dtype)
    if ord == 2:
        axes = normalize_axes(dim, x.ndim)
        return e.emit("sqrt", e.reduce("sum", e.mul(length, length), axes, keepdim))
    return vector_norm(e, length, ord, dim, keepdim)


# ---- products of vectors


def _sum_of_products(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    product = times(e, a, b)
    axes = [product.ndim - 1]
    return ComplexVal(e.reduce("sum", product.re, axes, False), e.reduce("sum", product.im, axes, False))


@lower_complex(aten.dot.default)
def dot(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    return _sum_of_products(e, a, b)


@lower_complex(aten.vdot.default)
def vdot(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    return _sum_of_products(e, ComplexVal(a.re, e.emit("neg", a.im)), b)


def _in_rows(e: Emitter) -> None:
    matrix = next(t for t in e.args_meta if t.ndim == 2)
    if matrix.stride(1) != 1:
        raise Declined("a matrix whose rows are not stretches of memory")


@lower_complex(aten.mm.default)
def mm(e: Emitter, a: ComplexVal, b: ComplexVal) -> ComplexVal:
    if not few_steps(e, a, b, _MOST_STEPS):
        raise Declined("a product of complex matrices")
    pairs = [products(e, x, y) for x, y in ((a.re, b.re), (a.im, b.im), (a.re, b.im), (a.im, b.re))]
    re, im = e.sub(pairs[0], pairs[1]), e.add(pairs[2], pairs[3])
    return ComplexVal(e.reduce("sum", re, [2], False), e.reduce("sum", im, [2], False))


@lower_complex(aten.addmm.default)
def addmm(e: Emitter, c: Any, a: ComplexVal, b: ComplexVal, *, beta: Any = 1, alpha: Any = 1) -> ComplexVal:
    return _scaled(e, c, mm(e, a, b), beta, alpha)


@lower_complex(aten.mv.default)
def mv(e: Emitter, a: ComplexVal, x: ComplexVal) -> ComplexVal:
    _in_rows(e)
    return _sum_of_products(e, a, x)


@lower_complex(aten.addmv.default)
def addmv(e: Emitter, c: Any, a: ComplexVal, x: ComplexVal, *, beta: Any = 1, alpha: Any = 1) -> ComplexVal:
    return _scaled(e, c, mv(e, a, x), beta, alpha)


def _scaled(e: Emitter, c: Any, product: ComplexVal, beta: Any, alpha: Any) -> ComplexVal:
    product = times(e, product, *_operands(e, alpha))
    return product if beta == 0 else plus(e, product, times(e, *_operands(e, c, beta)))
