"""The functions that `exactness` compares, and their inputs: every number of a 16-bit dtype, or patterns of f32."""

from __future__ import annotations

from collections.abc import Callable

import torch

F = torch.nn.functional
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
Function = Callable[..., torch.Tensor]

UNARY: dict[str, Function] = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "lgamma": torch.lgamma,
}
# Formulas over them. In f32 eager's own formula cancels in places, and so does poot's.
COMPOSED: dict[str, Function] = {
    "pow_1.7": lambda x: x**1.7,
    "pow_-0.3": lambda x: x**-0.3,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "softplus": F.softplus,
    "mish": F.mish,
    "elu": F.elu,
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7),
    "logsigmoid": F.logsigmoid,
    "tanh_softplus": lambda x: torch.tanh(F.softplus(x)),
}
BINARY: dict[str, Function] = {
    "atan2": torch.atan2,
    "pow": torch.pow,
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "xlogy": torch.xlogy,
    "xlog1py": torch.special.xlog1py,
    "nextafter": torch.nextafter,
}


def _rope(x: torch.Tensor) -> torch.Tensor:
    """Rotate-half on the last axis: x * cos + rotate_half(x) * sin, the tables made from the same bits."""
    rows = x.view(-1, 64)
    cos, sin = rows.flip(0), rows.roll(1, 0)
    a, b = rows.chunk(2, -1)
    return rows * cos + torch.cat((-b, a), -1) * sin


ARITHMETIC: dict[str, Function] = {
    "add_mul_sub": lambda x: (x + 1.5) * x - x.flip(0),
    "div": lambda x: x.flip(0) / x + x / 3,
    "reciprocal": torch.reciprocal,
    "abs_neg_sign": lambda x: -x.abs() + torch.sign(x),
    "square_cube": lambda x: x**2 + x**3,
    "relu_clamp": lambda x: F.relu(x).clamp(-2, 6) - F.relu6(x),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardshrink": F.hardshrink,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "min_max_where": lambda x: torch.where(x > x.flip(0), torch.maximum(x, x.flip(0)), torch.minimum(x * 2, x.flip(0))),
    "addcmul": lambda x: torch.addcmul(x, x.flip(0), x.roll(7), value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x.flip(0), x.roll(7)),
    "lerp": lambda x: torch.lerp(x, x.flip(0), 0.3),
    "copysign": lambda x: torch.copysign(x, x.flip(0)),
    "rounding": lambda x: x.floor() + x.ceil() - x.round() + x.trunc(),
    "fmod_remainder": lambda x: torch.fmod(x, 3.0) + torch.remainder(x, 1.5),
    "floor_divide": lambda x: torch.floor_divide(x, x.flip(0)),
    "casts": lambda x: (x.float() * 1.1).to(x.dtype) + (x.clamp(-100, 100)).to(torch.int32).to(x.dtype),
    "rope_rotate_half": _rope,
}

TABLES = {"function": UNARY, "composed": COMPOSED, "binary": BINARY, "arithmetic": ARITHMETIC}
_BITS = {2: torch.int16, 4: torch.int32}
_SPECIAL = (0.0, 1.0, 2.0, 3.0, 0.5, 1.5, torch.inf, torch.nan)


def integer(x: torch.Tensor) -> torch.Tensor:
    """The bit patterns."""
    return x.view(_BITS[x.element_size()])


def _numbers(dtype: torch.dtype, count: int) -> torch.Tensor:
    """`count` bit patterns at even distance over all of the dtype; `count` is a power of two."""
    bits = 8 * dtype.itemsize
    stride = 2**bits // count
    patterns = torch.arange(-(2 ** (bits - 1)), 2 ** (bits - 1), stride, dtype=torch.int64)
    odd = torch.arange(count, dtype=torch.int64) * 40503 % stride  # low bits vary too
    return (patterns + odd).to(_BITS[dtype.itemsize]).view(dtype)


def inputs(kind: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Every number of a 16-bit dtype, a million patterns of f32; of two operands, a grid."""
    if kind != "binary":
        x = _numbers(dtype, 2**16 if dtype.itemsize == 2 else 2**20)
        if dtype.itemsize == 4:  # and the range where functions do most of their work
            near = torch.linspace(-20, 20, 2**17, dtype=torch.float64).to(dtype)
            special = torch.tensor([s * v for v in _SPECIAL for s in (1, -1)], dtype=dtype)
            x = torch.cat((x, near, special))
        return (x,)
    special = torch.tensor([s * v for v in _SPECIAL for s in (1, -1)], dtype=dtype)
    near = torch.linspace(-9.7, 11.3, 112, dtype=torch.float64).to(dtype)
    axis = torch.cat((_numbers(dtype, 128), near, special))
    a, b = torch.meshgrid(axis, axis, indexing="ij")
    return a.reshape(-1).contiguous(), b.reshape(-1).contiguous()
