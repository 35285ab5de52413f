"""Lowerings of complex tensors, which the graph holds as real and imaginary parts.

What moves numbers or adds them up works on each part alone, through the lowering for real tensors; the rest is
registered here and in complex_functions by `@lower_complex`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..complex_pairs import part_dtype
from ..emitter import PART_OF, ComplexVal, Declined, Emitter, Val, opmath
from ..trees import leaves, mapped

aten = torch.ops.aten
_REGISTRY: dict[Any, Callable[..., Any]] = {}
# Arguments that hold numbers of the complex result: a real one there has imaginary part zero.
_DATA = frozenset(
    (
        *("self", "input", "other", "src", "source", "value", "values", "tensor", "tensors"),
        *("fill_value", "s", "x", "grad", "grad_output", "weight"),
    )
)
_PARTWISE = frozenset(
    (
        *("view", "reshape", "_unsafe_view", "_reshape_alias", "_reshape_copy", "view_copy", "flatten", "unflatten"),
        *("squeeze", "squeeze_copy", "unsqueeze", "unsqueeze_copy", "ravel", "expand", "expand_copy"),
        *("permute", "permute_copy", "transpose", "transpose_copy", "t", "t_copy", "numpy_T", "movedim", "flip"),
        *("slice", "slice_copy", "narrow", "narrow_copy", "select", "select_copy", "unbind", "unbind_copy"),
        *("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"),
        *("split_copy", "split_with_sizes_copy", "diagonal", "diagonal_copy", "unfold", "unfold_copy"),
        *("as_strided", "as_strided_copy", "as_strided_scatter", "clone", "alias", "alias_copy", "detach"),
        *("lift_fresh_copy", "lift_fresh", "contiguous", "copy", "positive", "neg", "where", "masked_fill"),
        *("zero", "zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided"),
        *("new_empty_strided", "empty_permuted", "full", "full_like", "new_full", "fill", "scalar_tensor"),
        *("tril", "triu", "cat", "stack", "constant_pad_nd", "repeat", "roll", "embedding", "index_select", "take"),
        *("gather", "index", "_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl", "index_copy"),
        *("index_fill", "index_add", "scatter", "scatter_add", "put", "slice_scatter", "select_scatter"),
        *("diagonal_scatter", "masked_scatter", "sum", "mean", "cumsum"),
    )
)


def lower_complex(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the function for calls with a complex operand or result."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        _REGISTRY.update(dict.fromkeys(overloads, fn))
        return fn

    return register


@functools.cache
def _registry() -> dict[Any, Callable[..., Any]]:
    for family in ("complex_arithmetic", "complex_functions"):
        importlib.import_module(f"{__package__}.{family}")
    return _REGISTRY


def choose(target: Any, operands: list[Any], val: Any, real: Mapping[Any, Callable[..., Any]]) -> Any:
    """The lowering for a call with these operands and fake results, or None."""
    results = [t for t in leaves(val) if isinstance(t, torch.Tensor)]
    if not any(isinstance(o, ComplexVal) for o in operands) and not any(t.is_complex() for t in results):
        return real.get(target)
    found = _registry().get(target)
    name = target._schema.name.removeprefix("aten::")
    if found is None and name in _PARTWISE and target in real and all(t.is_complex() for t in results):
        found = functools.partial(_partwise, target, real[target])
    halves = any(t.dtype is torch.complex32 for t in (*operands, *results))
    return functools.partial(_widened, found) if found is not None and halves else found


class _Wide:
    """The fake result of a call on wider parts."""

    def __init__(self, narrow: torch.Tensor) -> None:
        self._narrow = narrow
        self.dtype = torch.complex64 if narrow.dtype is torch.complex32 else narrow.dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(self._narrow, name)


def _widened(lowering: Callable[..., Any], e: Emitter, *args: Any, **kwargs: Any) -> Any:
    """The lowering with the parts of complex32 in f32, as eager computes; what it yields is rounded once."""

    def wide(x: Any) -> Any:
        if x is torch.complex32:
            return torch.complex64
        return parts(e, x, opmath(x.re.dtype)) if isinstance(x, ComplexVal) else x

    def narrow(x: Any, t: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return tuple(narrow(*pair) for pair in zip(x, t, strict=True))
        return parts(e, x, part_dtype(t.dtype)) if t.dtype.is_complex else e.cast(x, t.dtype)

    meta = e.meta
    try:
        e.meta = mapped(lambda t: _Wide(t) if isinstance(t, torch.Tensor) else t, meta)
        found = lowering(e, *mapped(wide, args), **{k: mapped(wide, v) for k, v in kwargs.items()})
    finally:
        e.meta = meta
    return narrow(found, meta)


class _Part:
    """The fake result of one part."""

    def __init__(self, whole: torch.Tensor | _Wide) -> None:
        self._whole, self.dtype = whole, part_dtype(whole.dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


def parts(e: Emitter, x: Any, dtype: torch.dtype) -> ComplexVal:
    """A number, real or complex tensor as complex, its parts of `dtype`."""
    if isinstance(x, ComplexVal):
        return ComplexVal(e.cast(x.re, dtype), e.cast(x.im, dtype))
    if isinstance(x, complex):
        return ComplexVal(e.full(x.real, (), dtype), e.full(x.imag, (), dtype))
    re = e.value(x, dtype)
    return ComplexVal(re, e.full(0, re.shape, dtype))


def _part(e: Emitter, x: Any, number: bool, index: int, dtype: torch.dtype) -> Any:
    """Part `index` of an argument; `number`: it holds numbers of the result."""
    if isinstance(x, torch.dtype):
        return PART_OF.get(x, x)
    if isinstance(x, ComplexVal):
        return e.cast((x.re, x.im)[index], dtype) if number else (x.re, x.im)[index]
    if not number or x is None:
        return x
    if isinstance(x, Val):
        return e.cast(x, dtype) if index == 0 else e.full(0, x.shape, dtype)
    return complex(x).real if index == 0 else complex(x).imag


def _partwise(target: Any, lowering: Callable[..., Any], e: Emitter, *args: Any, **kwargs: Any) -> Any:
    names = [a.name for a in target._schema.arguments]
    whole = e.meta
    dtype = part_dtype(next(t.dtype for t in leaves(whole) if isinstance(t, (torch.Tensor, _Wide))))

    def of(name: str, argument: Any, index: int) -> Any:
        number = name in _DATA
        return mapped(lambda a: _part(e, a, number, index, dtype), argument)

    found = []
    try:
        e.meta = mapped(lambda t: _Part(t) if isinstance(t, (torch.Tensor, _Wide)) else t, whole)
        for index in (0, 1):
            given = [of(n, a, index) for n, a in zip(names, args, strict=False)]
            found.append(lowering(e, *given, **{n: of(n, a, index) for n, a in kwargs.items()}))
    finally:
        e.meta = whole
    re, im = found
    if isinstance(re, Val):
        return ComplexVal(re, im)
    return tuple(ComplexVal(a, b) for a, b in zip(re, im, strict=True))


def written(e: Emitter, value: Any, old: Val | ComplexVal) -> Val | ComplexVal:
    """What `old` becomes when `value` is copied over it."""
    if isinstance(old, ComplexVal):
        new = parts(e, value, old.re.dtype)
        return ComplexVal(e.broadcast(new.re, old.shape), e.broadcast(new.im, old.shape))
    if isinstance(value, ComplexVal):
        value = value.re
    return e.broadcast(e.value(value, old.dtype), old.shape)


def working_dtype(*args: Any) -> torch.dtype:
    """The dtype of parts in which operands meet."""
    given = [a for a in args if isinstance(a, (Val, ComplexVal))]
    dtypes = [a.dtype for a in given if isinstance(a, ComplexVal) and a.ndim] or [a.dtype for a in given]
    if not dtypes:
        raise Declined("complex arithmetic between numbers")
    return PART_OF.get(functools.reduce(torch.promote_types, dtypes), torch.float32)
