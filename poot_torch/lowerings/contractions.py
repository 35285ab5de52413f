"""Matrix products. Integer ones run through the dispatcher: the library plans are for floats. Products of a vector are
bound by reading its partner: where the contraction is not planned for their type, they are sums of products."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import Declined, Emitter, Val, is_float, opmath
from . import lower

aten = torch.ops.aten


def _floats(*args: Val) -> None:
    if not all(is_float(a.dtype) and a.dtype == args[0].dtype for a in args):
        raise Declined("matrix product of integers or of mixed dtypes")


def sum_of_products(e: Emitter, a: Val, b: Val) -> Val | None:
    """a [M, K] by b [K, N] of integers, where M or N is 1; None elsewhere."""
    if is_float(a.dtype) or a.ndim != 2 or (a.shape[0] != 1 and b.shape[1] != 1):
        return None
    return e.reduce("sum", e.mul(e.unsqueeze(a, 1), e.unsqueeze(e.transpose(b, (1, 0)), 0)), [2], False)


@lower(aten.mm.default, aten.bmm.default)
def matmul(e: Emitter, a: Val, b: Val) -> Val:
    product = sum_of_products(e, a, b)
    if product is not None:
        return product
    _floats(a, b)
    return e.emit("matmul", a, b)


@lower(aten.addmm.default, aten.baddbmm.default)
def addmm(e: Emitter, c: Val, a: Val, b: Val, *, beta: Any = 1, alpha: Any = 1) -> Val:
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
    return e.add(e.mul(product, alpha), e.mul(c, beta))


@lower(aten.mv.default)
def mv(e: Emitter, a: Val, x: Val) -> Val:
    if not is_float(a.dtype):
        return e.reduce("sum", e.mul(a, x), [1], False)
    _floats(a, x)
    return e.reshape(e.emit("matmul", a, e.unsqueeze(x, 1)), e.out_shape)


@lower(aten.addmv.default)
def addmv(e: Emitter, c: Val, a: Val, x: Val, *, beta: Any = 1, alpha: Any = 1) -> Val:
    if not is_float(c.dtype):
        product = e.mul(mv(e, a, x), alpha)
        return product if beta == 0 else e.add(product, e.mul(c, beta))
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
