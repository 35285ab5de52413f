"""Activations. In f16 and bf16 eager computes each in f32 and rounds once, so they are expanded
between two casts; the formulas and their order of operations are those of eager's CPU kernels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import is_contiguous_or_false, is_non_overlapping_and_dense_or_false

from ..emitter import Emitter, Val, is_float, opmath
from . import lower
from .elementary import sigmoid
from .predicates import clamp
from .special import vector_erf

aten = torch.ops.aten


def in_opmath(*overloads: Any) -> Callable[[Callable[..., Val]], Callable[..., Val]]:
    """Registers a formula over x in opmath; the result is rounded once to x's dtype."""

    def register(formula: Callable[..., Val]) -> Callable[..., Val]:
        def fn(e: Emitter, x: Val, *args: Any, **kwargs: Any) -> Val:
            wide = e.cast(x, opmath(x.dtype))
            return e.cast(formula(e, wide, *args, **kwargs), x.dtype)

        lower(*overloads)(fn)
        return formula

    return register


@lower(aten.relu.default)
def relu(e: Emitter, x: Val) -> Val:
    return clamp(e, x, 0)


@lower(aten.hardtanh.default)
def hardtanh(e: Emitter, x: Val, min_val: Any = -1, max_val: Any = 1) -> Val:
    bounds = (min_val, max_val) if is_float(x.dtype) else (int(min_val), int(max_val))
    return clamp(e, x, *bounds)


@lower(aten.relu6.default)
def relu6(e: Emitter, x: Val) -> Val:
    return clamp(e, x, 0, 6)


@lower(aten.threshold.default)
def threshold(e: Emitter, x: Val, threshold: Any, value: Any) -> Val:
    return e.where(e.compare("le", x, threshold), value, x, x.dtype)


@in_opmath(aten.silu.default)
def silu(e: Emitter, x: Val) -> Val:
    return e.div(x, e.add(e.emit("exp", e.emit("neg", x)), 1))


def _tanh_near_one(e: Emitter, x: Val) -> Val:
    """Rounded right where it is near 1, so that 1 + tanh cancels to what eager's gives; there alone it matters. Eager's
    is 1 from the limit on."""
    size = e.emit("abs", x)
    two = e.full(2.0, (), x.dtype)
    value = e.sub(e.full(1.0, (), x.dtype), e.div(two, e.add(e.emit("exp", e.add(size, size)), 1)))
    return e.emit("copysign", e.where(e.compare("gt", size, 8.664339742), 1.0, value, x.dtype), x)


@functools.cache
def host_gelu() -> tuple[frozenset[torch.dtype], bool]:
    """The dtypes whose gelu eager hands to oneDNN on this machine; whether it makes zeros of bf16's denormals there."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():
        return frozenset(), False
    dtypes = {torch.float32}
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        dtypes.add(torch.bfloat16)
    if torch.ops.mkldnn._is_mkldnn_fp16_supported():
        dtypes.add(torch.float16)
    return frozenset(dtypes), torch.cpu._is_avx512_bf16_supported()


def _gelu_of_library(e: Emitter) -> bool:
    """oneDNN takes contiguous tensors of more than one element."""
    if e.meta.device.type != "cpu" or e.out_dtype not in host_gelu()[0]:
        return False
    return is_contiguous_or_false(e.args_meta[0]) and e.numel(e.out_shape) != 1


@in_opmath(aten.gelu.default)
def gelu(e: Emitter, x: Val, *, approximate: str = "none") -> Val:
    if approximate == "tanh":
        cube = e.mul(e.mul(x, x), x)
        inner = e.mul(e.add(x, e.mul(cube, 0.044715)), math.sqrt(2.0 / math.pi))
        bend = _tanh_near_one(e, inner) if e.reduced_on_cpu() else e.emit("tanh", inner)
        return e.mul(e.mul(x, 0.5), e.add(bend, 1))
    if not _gelu_of_library(e):
        scaled = e.mul(x, math.sqrt(0.5))
        vectors = e.reduced_on_cpu() and is_non_overlapping_and_dense_or_false(e.args_meta[0])
        tail = vector_erf(e, scaled) if vectors else e.emit("erf", scaled)
        return e.mul(e.mul(x, 0.5), e.add(tail, 1))
    value = e.mul(e.mul(x, e.add(e.emit("gelu_erf", x), 1)), 0.5)
    if e.out_dtype is torch.bfloat16 and host_gelu()[1]:
        # The instruction that rounds to bf16 there makes zeros of denormals.
        normal = e.compare("ge", e.emit("abs", value), torch.finfo(torch.bfloat16).smallest_normal)
        value = e.where(normal, value, e.mul(value, 0), value.dtype)
    return value


@lower(aten.log_sigmoid_forward.default)
def log_sigmoid(e: Emitter, x: Val) -> tuple[Val, Val]:
    """Eager's logarithm loses the smallest denormal number."""
    wide = e.cast(x, opmath(x.dtype))
    decayed = e.emit("exp", e.emit("neg", e.emit("abs", wide)))
    logarithm = e.emit("log1p", decayed)
    if e.reduced_on_cpu():
        logarithm = e.where(e.compare("lt", decayed, 2.0**-148), 0.0, logarithm, wide.dtype)
    value = e.sub(e.emit("minimum", wide, e.lit(0, wide.dtype)), logarithm)
    on_cpu = e.meta[0].device.type == "cpu"
    buffer = e.cast(decayed, x.dtype) if on_cpu else e.full(0, (0,), x.dtype)
    return e.cast(value, x.dtype), buffer


def _relu6_of_shifted(e: Emitter, x: Val) -> Val:
    shifted = e.emit("maximum", e.add(x, 3), e.lit(0, x.dtype))
    return e.emit("minimum", shifted, e.lit(6, x.dtype))


@in_opmath(aten.hardswish.default)
def hardswish(e: Emitter, x: Val) -> Val:
    return e.div(e.mul(x, _relu6_of_shifted(e, x)), 6)


@in_opmath(aten.hardsigmoid.default)
def hardsigmoid(e: Emitter, x: Val) -> Val:
    return e.div(_relu6_of_shifted(e, x), 6)


@in_opmath(aten.leaky_relu.default)
def leaky_relu(e: Emitter, x: Val, negative_slope: Any = 0.01) -> Val:
    return e.where(e.compare("gt", x, 0), x, e.mul(x, negative_slope), x.dtype)


@in_opmath(aten.elu.default)
def elu(e: Emitter, x: Val, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Val:
    negative = e.mul(e.emit("expm1", e.mul(x, input_scale)), float(alpha) * float(scale))
    return e.where(e.compare("le", x, 0), negative, e.mul(x, scale), x.dtype)


@in_opmath(aten.celu.default)
def celu(e: Emitter, x: Val, alpha: Any = 1.0) -> Val:
    return elu(e, x, alpha, 1, 1.0 / float(alpha))


@in_opmath(aten.softplus.default)
def softplus(e: Emitter, x: Val, beta: Any = 1, threshold: Any = 20) -> Val:
    scaled = e.mul(x, beta)
    soft = e.div(e.emit("log1p", e.emit("exp", scaled)), beta)
    return e.where(e.compare("gt", scaled, threshold), x, soft, x.dtype)


@in_opmath(aten.mish.default)
def mish(e: Emitter, x: Val) -> Val:
    return e.mul(x, e.emit("tanh", e.emit("log1p", e.emit("exp", x))))


# ---- gradients: eager's kernels round once where a product is added. Whole operators, so that the partitioner computes
# their operands again rather than keep what is between


def _gradient(overload: Any) -> Callable[[Callable[..., Val]], None]:
    """Registers a formula over the incoming gradient and an operand in opmath; the result is rounded once."""

    def register(formula: Callable[..., Val]) -> None:
        def fn(e: Emitter, grad: Val, y: Val) -> Val:
            wide = opmath(e.out_dtype)
            return e.cast(formula(e, e.cast(grad, wide), e.cast(y, wide)), e.out_dtype)

        lower(overload)(fn)

    return register


def _one(e: Emitter, like: Val) -> Val:
    return e.full(1.0, (), like.dtype)


@_gradient(aten.tanh_backward.default)
def _tanh_backward(e: Emitter, grad: Val, y: Val) -> Val:
    return e.mul(grad, e.emit("fma", e.emit("neg", y), y, _one(e, y)))


@_gradient(aten.sigmoid_backward.default)
def _sigmoid_backward(e: Emitter, grad: Val, y: Val) -> Val:
    return e.mul(e.mul(grad, e.sub(_one(e, y), y)), y)


@_gradient(aten.silu_backward.default)
def _silu_backward(e: Emitter, grad: Val, x: Val) -> Val:
    share = sigmoid(e, x)
    return e.mul(e.mul(grad, share), e.emit("fma", x, e.sub(_one(e, x), share), _one(e, x)))
