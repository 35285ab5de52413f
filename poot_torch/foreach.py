"""Operators over lists of tensors, as compiled optimizers use them: each becomes its operator on every tensor.

Eager's CPU kernels do the same one tensor at a time, so values agree bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# _foreach_NAME is NAME's default overload on each tensor.
_UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma"),
    *("log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh"),
    *("sqrt", "tan", "tanh", "trunc", "max", "clone", "mm", "copy"),
)
# _foreach_NAME.OVERLOAD is this overload of an operator on each tensor.
_OVERLOADS = {
    **{
        f"{name}.{listed}": f"{name}.{each}"
        for name in ("add", "sub", "mul", "div")
        for listed, each in (("Scalar", "Scalar"), ("List", "Tensor"), ("ScalarList", "Scalar"), ("Tensor", "Tensor"))
    },
    **{
        f"{name}.{listed}": f"{each}.{overload}"
        for name, each in (
            ("clamp_max", "clamp_max"),
            ("clamp_min", "clamp_min"),
            ("minimum", "clamp_max"),
            ("maximum", "clamp_min"),
        )
        for listed, overload in (("Scalar", "default"), ("List", "Tensor"), ("ScalarList", "default"))
    },
    "lerp.List": "lerp.Tensor",
    "lerp.Scalar": "lerp.Scalar",
    "lerp.ScalarList": "lerp.Scalar",
    "pow.List": "pow.Tensor_Tensor",
    "pow.Scalar": "pow.Tensor_Scalar",
    "pow.ScalarList": "pow.Tensor_Scalar",
    "zero.default": "zeros_like.default",
}


def _each(op: Callable[..., Any]) -> Callable[..., Any]:
    def decompose(first: Any, *args: Any, **kwargs: Any) -> list[Any]:
        def at(a: Any, i: int) -> Any:
            return a[i] if isinstance(a, (list, tuple)) else a

        return [
            op(t, *(at(a, i) for a in args), **{k: at(a, i) for k, a in kwargs.items()}) for i, t in enumerate(first)
        ]

    return decompose


def _with_value(op: Callable[..., Any]) -> Callable[..., Any]:
    """addcmul and addcdiv, whose factor is `value` or `scalars`."""

    def decompose(first: Any, a: Any, b: Any, value: Any = 1, scalars: Any = None) -> list[Any]:
        values = value if scalars is None else scalars
        factors = values if isinstance(values, (list, tuple)) else [values] * len(first)
        return [op(t, x, y, value=v) for t, x, y, v in zip(first, a, b, factors, strict=True)]

    return decompose


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """Decompositions by operator overload; made once a process."""
    import torch

    aten = torch.ops.aten

    def found(name: str) -> Any:
        packet, _, overload = name.partition(".")
        return getattr(getattr(aten, packet, None), overload or "default", None)

    pairs = {**{f"{n}.default": f"{n}.default" for n in _UNARY}, **_OVERLOADS}
    made = {found(f"_foreach_{listed}"): _each(found(each)) for listed, each in pairs.items()}
    for name in ("addcmul", "addcdiv"):
        for overload in ("Scalar", "ScalarList"):
            made[found(f"_foreach_{name}.{overload}")] = _with_value(found(f"{name}.default"))

    def norms(first: Any, order: Any = 2, dtype: Any = None) -> list[Any]:
        return [aten.linalg_vector_norm.default(t, order, None, False, dtype=dtype) for t in first]

    def powers(base: Any, exponents: Any) -> list[Any]:
        return [aten.pow.Scalar(base, e) for e in exponents]

    made[found("_foreach_norm.Scalar")] = norms
    made[found("_foreach_pow.ScalarAndTensor")] = powers
    made.pop(None, None)  # operators that this torch lacks
    return made


def present(gm: Any) -> bool:
    """Whether Dynamo's graph works on lists of tensors."""
    return any("_foreach_" in str(n.target) for n in gm.graph.nodes if n.op in ("call_function", "call_method"))
