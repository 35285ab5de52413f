"""Activations. In f16 and bf16 eager computes each in f32 and rounds once, so they are expanded
between two casts; the formulas and their order of operations are those of eager's CPU kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..emitter import Emitter, Val, opmath
from . import lower
from .predicates import clamp

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
    return clamp(e, x, min_val, max_val)


@lower(aten.relu6.default)
def relu6(e: Emitter, x: Val) -> Val:
    return clamp(e, x, 0, 6)


@lower(aten.threshold.default)
def threshold(e: Emitter, x: Val, threshold: Any, value: Any) -> Val:
    return e.where(e.compare("le", x, threshold), value, x, x.dtype)


@in_opmath(aten.silu.default)
def silu(e: Emitter, x: Val) -> Val:
    return e.div(x, e.add(e.emit("exp", e.emit("neg", x)), 1))


@in_opmath(aten.gelu.default)
def gelu(e: Emitter, x: Val, *, approximate: str = "none") -> Val:
    if approximate == "tanh":
        cube = e.mul(e.mul(x, x), x)
        inner = e.mul(e.add(x, e.mul(cube, 0.044715)), math.sqrt(2.0 / math.pi))
        return e.mul(e.mul(x, 0.5), e.add(e.emit("tanh", inner), 1))
    tail = e.emit("erf", e.mul(x, math.sqrt(0.5)))
    return e.mul(e.mul(x, 0.5), e.add(tail, 1))


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
