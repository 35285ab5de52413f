"""Division in all its roundings, and the remainders."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from ..emitter import REDUCED, Emitter, Val, is_float, opmath
from . import lower
from .predicates import isinf

aten = torch.ops.aten


@lower(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, aten.true_divide.Scalar)
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
    if _is_scalar(b) or e.on_gpu:
        return e.pointwise("floor_div", (a, b), dtype)
    return _stepwise_floor_div(e, e.value(a, dtype), e.value(b, dtype))


def _stepwise_floor_div(e: Emitter, a: Val, b: Val) -> Val:
    """Eager's vector code for f16 and bf16 on a CPU, which rounds after every step; its remainder is f32 on a GPU, and
    with it all that follows."""
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
