"""Draws as arithmetic on coordinates, for the option `fast_random`.

Number i of draw k is splitmix64's output for the state seed + k*2^40 + i + 1 (Steele, Lea, Flood: "Fast splittable
pseudorandom number generators", 2014; multipliers by Stafford, variant 13). The seed is one draw from eager's
generator a call, so that torch.manual_seed still decides everything; the numbers are not eager's. A draw is pure, fuses
with its readers, and does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..emitter import Declined, Emitter, Val

aten = torch.ops.aten
DRAWN: dict[Any, Callable[..., Any]] = {}
"""Lowerings of operators that draw, by overload; used only under `fast_random`."""

_DRAW_STRIDE = 1 << 40  # states between two draws of a call
_MANTISSA = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def _drawn(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        DRAWN.update(dict.fromkeys(overloads, fn))
        return fn

    return register


def _signed(bits: int) -> int:
    """The i64 with these 64 bits."""
    bits &= (1 << 64) - 1
    return bits - (1 << 64) if bits >> 63 else bits


def _shift_right(e: Emitter, x: Val, by: int) -> Val:
    """Zeros come in from the left."""
    shifted = e.emit("shift_right", x, e.lit(by, torch.int64))
    return e.emit("bit_and", shifted, e.lit((1 << (64 - by)) - 1, torch.int64))


def _bits(e: Emitter, shape: tuple[Any, ...]) -> Val:
    """64 random bits an element, as i64."""
    at = e.reshape(e.iota(e.numel(shape)), shape)
    state = e.emit("add", at, e.lit(1 + e.next_draw() * _DRAW_STRIDE, torch.int64))
    z = e.emit("mul", e.emit("add", e.seed(), state), e.lit(_signed(0x9E3779B97F4A7C15), torch.int64))
    for by, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = e.emit("bit_xor", z, _shift_right(e, z, by))
        z = e.emit("mul", z, e.lit(_signed(factor), torch.int64))
    return e.emit("bit_xor", z, _shift_right(e, z, 31))


def _uniform(e: Emitter, shape: tuple[Any, ...], dtype: torch.dtype) -> Val:
    """In [0, 1), multiples of the spacing of `dtype` below 1."""
    if dtype not in _MANTISSA:
        raise Declined(f"uniform numbers of {dtype}")
    kept = _MANTISSA[dtype]
    number = e.cast(_shift_right(e, _bits(e, shape), 64 - kept), dtype)
    return e.emit("mul", number, e.lit(2.0**-kept, dtype))


def _normal(e: Emitter, shape: tuple[Any, ...], dtype: torch.dtype) -> Val:
    """Box and Muller's transform, in f32 at least, rounded once."""
    if not dtype.is_floating_point:
        raise Declined(f"normal numbers of {dtype}")
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    radius = e.emit("log1p", e.emit("neg", _uniform(e, shape, wide)))
    radius = e.emit("sqrt", e.mul(radius, -2.0))
    angle = e.mul(_uniform(e, shape, wide), 2 * math.pi)
    return e.cast(e.mul(radius, e.emit("cos", angle)), dtype)


def _below(e: Emitter, shape: tuple[Any, ...], p: Any) -> Val:
    """True with probability p, a number or a Val."""
    wide = torch.float64 if isinstance(p, Val) and p.dtype is torch.float64 else torch.float32
    return e.emit("lt", _uniform(e, shape, wide), e.operand(p, wide))


@_drawn(aten.native_dropout.default)
def _native_dropout(e: Emitter, x: Val, p: float, train: bool | None) -> Any:
    if train is False:
        return x, e.full(True, x.shape, torch.bool)
    mask = _below(e, x.shape, 1.0 - p)
    kept = e.emit("mul", x, e.cast(mask, x.dtype))
    return e.binary("mul", kept, 0.0 if p == 1 else 1.0 / (1.0 - p)), mask


@_drawn(aten.rand.default, aten.rand_like.default)
def _rand(e: Emitter, *_: Any, **__: Any) -> Any:
    return _uniform(e, e.out_shape, e.out_dtype)


@_drawn(aten.randn.default, aten.randn_like.default)
def _randn(e: Emitter, *_: Any, **__: Any) -> Any:
    return _normal(e, e.out_shape, e.out_dtype)


@_drawn(aten.uniform.default)
def _uniform_between(e: Emitter, x: Val, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Any:
    _own_generator(generator)
    return e.binary("add", e.binary("mul", _uniform(e, x.shape, x.dtype), high - low), low)


@_drawn(aten.normal_functional.default)
def _normal_functional(e: Emitter, x: Val, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    _own_generator(generator)
    return e.binary("add", e.binary("mul", _normal(e, x.shape, x.dtype), std), mean)


@_drawn(aten.exponential.default)
def _exponential(e: Emitter, x: Val, rate: float = 1.0, generator: Any = None) -> Any:
    _own_generator(generator)
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    waits = e.emit("log1p", e.emit("neg", _uniform(e, x.shape, wide)))
    return e.cast(e.div(waits, -rate), x.dtype)


@_drawn(aten.bernoulli.default)
def _bernoulli(e: Emitter, p: Val, generator: Any = None) -> Any:
    _own_generator(generator)
    return e.cast(_below(e, p.shape, p), p.dtype)


@_drawn(aten.bernoulli.p)
def _bernoulli_p(e: Emitter, x: Val, p: float = 0.5, generator: Any = None) -> Any:
    _own_generator(generator)
    return e.cast(_below(e, x.shape, p), x.dtype)


@_drawn(aten.randint.default)
def _randint(e: Emitter, high: Any, *_: Any, **__: Any) -> Any:
    return _between(e, 0, high)


@_drawn(aten.randint.low)
def _randint_low(e: Emitter, low: Any, high: Any, *_: Any, **__: Any) -> Any:
    return _between(e, low, high)


@_drawn(aten.randint_like.default)
def _randint_like(e: Emitter, _: Val, high: Any, **__: Any) -> Any:
    return _between(e, 0, high)


@_drawn(aten.randint_like.low_dtype)
def _randint_like_low(e: Emitter, _: Val, low: Any, high: Any, **__: Any) -> Any:
    return _between(e, low, high)


def _between(e: Emitter, low: Any, high: Any) -> Val:
    """low + 63 random bits modulo the width, as eager's generator does."""
    place = e.emit("remainder", _shift_right(e, _bits(e, e.out_shape), 1), e.operand(high - low, torch.int64))
    return e.cast(e.emit("add", place, e.operand(low, torch.int64)), e.out_dtype)


def _own_generator(generator: Any) -> None:
    if generator is not None:
        raise Declined("draws from a generator of its own")
