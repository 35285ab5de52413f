"""Matrix products. Integer ones run through the dispatcher: the library plans are for floats. Products of a vector are
bound by reading its partner: where the contraction is not planned for their type, they are sums of products."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import ComplexVal, Declined, Emitter, Val, is_float, opmath
from . import lower

aten = torch.ops.aten
_MOST_INTEGER_STEPS = 1 << 18


def _floats(*args: Val) -> None:
    if not all(is_float(a.dtype) and a.dtype == args[0].dtype for a in args):
        raise Declined("matrix product of integers or of mixed dtypes")


def few_steps(e: Emitter, a: Val | ComplexVal, b: Val | ComplexVal, most: int) -> bool:
    """Whether a [M, K] by b [K, N] is bound by reading one of them, or has at most so many steps."""
    if a.ndim != 2 or a.shape[0] == 1 or b.shape[1] == 1:
        return a.ndim == 2
    steps = e.numel([*a.shape, b.shape[1]])
    return isinstance(steps, int) and steps <= most


def products(e: Emitter, a: Val, b: Val) -> Val:
    """[M, N, K], whose sums over K are those of a [M, K] by b [K, N]."""
    return e.mul(e.unsqueeze(a, 1), e.unsqueeze(e.transpose(b, (1, 0)), 0))


def _integers(e: Emitter, a: Val, b: Val) -> Val | None:
    """The library has plain loops for them, which are not worth a call for small ones."""
    if is_float(a.dtype) or not few_steps(e, a, b, _MOST_INTEGER_STEPS):
        return None
    return e.reduce("sum", products(e, a, b), [2], False)


@lower(aten.mm.default, aten.bmm.default)
def matmul(e: Emitter, a: Val, b: Val) -> Val:
    if any(d == 0 for d in e.out_shape):
        return e.full(0, e.out_shape, a.dtype)
    product = _integers(e, a, b)
    if product is not None:
        return product
    _floats(a, b)
    return e.emit("matmul", a, b)


@lower(aten.addmm.default, aten.baddbmm.default)
def addmm(e: Emitter, c: Val, a: Val, b: Val, *, beta: Any = 1, alpha: Any = 1) -> Val:
    if any(d == 0 for d in e.out_shape):
        return e.full(0, e.out_shape, c.dtype)
    product = _integers(e, a, b)
    if product is not None:
        return _scaled(e, c, product, beta, alpha)
    _floats(c, a, b)
    if not isinstance(alpha, (int, float)) or not isinstance(beta, (int, float)):
        return _scaled_apart(e, c, e.emit("matmul", a, b), beta, alpha)
    if beta == 0:
        product = e.emit("matmul", a, b)
        return product if alpha == 1 else _scaled_product(e, c, a, b, alpha)
    return e.emit("addmm", c, a, b, alpha=float(alpha), beta=float(beta))


def _scaled_product(e: Emitter, c: Val, a: Val, b: Val, alpha: Any) -> Val:
    zero = e.broadcast(e.full(0, (), c.dtype), c.shape)
    return e.emit("addmm", zero, a, b, alpha=float(alpha), beta=0.0)


def _scaled_apart(e: Emitter, c: Val, product: Val, beta: Any, alpha: Any) -> Val:
    """With factors that are known when the graph runs. What is narrower than f32 would round once more than eager."""
    if opmath(c.dtype) != c.dtype:
        raise Declined("a product with a symbolic factor")
    return _scaled(e, c, product, beta, alpha)


def _scaled(e: Emitter, c: Val, product: Val, beta: Any, alpha: Any) -> Val:
    """c counts for nothing where its factor is zero."""
    product = e.mul(product, alpha)
    return e.broadcast(product if beta == 0 else e.add(product, e.mul(c, beta)), product.shape)


@lower(aten.mv.default)
def mv(e: Emitter, a: Val, x: Val) -> Val:
    if not is_float(a.dtype):
        return e.reduce("sum", e.mul(a, x), [1], False)
    _floats(a, x)
    return e.reshape(e.emit("matmul", a, e.unsqueeze(x, 1)), e.out_shape)


@lower(aten.addmv.default)
def addmv(e: Emitter, c: Val, a: Val, x: Val, *, beta: Any = 1, alpha: Any = 1) -> Val:
    if not is_float(c.dtype):
        return _scaled(e, c, mv(e, a, x), beta, alpha)
    column = e.unsqueeze(c, 1) if c.ndim else c
    return e.reshape(addmm(e, column, a, e.unsqueeze(x, 1), beta=beta, alpha=alpha), e.out_shape)


@lower(aten.dot.default, aten.vdot.default)
def dot(e: Emitter, a: Val, b: Val) -> Val:
    wide = opmath(a.dtype)
    return e.cast(e.reduce("sum", e.mul(e.cast(a, wide), e.cast(b, wide)), [0], False), a.dtype)


@lower(aten.linear.default)
def linear(e: Emitter, x: Val, weight: Val, bias: Val | None = None) -> Val:
    rows = e.reshape(x, (e.numel(x.shape[:-1]), x.shape[-1]))
    transposed = e.transpose(weight, (1, 0))
    if bias is None:
        return e.reshape(matmul(e, rows, transposed), e.out_shape)
    return e.reshape(addmm(e, bias, rows, transposed), e.out_shape)
