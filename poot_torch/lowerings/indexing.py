"""Joining, padding, repeating, and reading or writing through index tensors."""

from __future__ import annotations

from typing import Any

import torch

from .. import _C
from ..emitter import Declined, Emitter, Val
from . import lower
from .views import slice_bounds

aten = torch.ops.aten


@lower(aten.cat.default)
def cat(e: Emitter, tensors: list[Val], dim: int = 0) -> Val:
    dtype = e.out_dtype
    parts = [t for t in tensors if t.shape != (0,)] or tensors[:1]
    parts = [e.cast(t, dtype) for t in parts]
    if len(parts) == 1:
        return parts[0]
    return e.emit("concat", *parts, axis=dim % parts[0].ndim)


@lower(aten.stack.default)
def stack(e: Emitter, tensors: list[Val], dim: int = 0) -> Val:
    axis = dim % (tensors[0].ndim + 1)
    parts = [e.unsqueeze(e.cast(t, e.out_dtype), axis) for t in tensors]
    return parts[0] if len(parts) == 1 else e.emit("concat", *parts, axis=axis)


@lower(aten.constant_pad_nd.default)
def constant_pad_nd(e: Emitter, x: Val, pad: Any, value: Any = 0) -> Val:
    low: list[Any] = [0] * x.ndim
    high: list[Any] = [0] * x.ndim
    for i in range(len(pad) // 2):
        low[x.ndim - 1 - i], high[x.ndim - 1 - i] = pad[2 * i], pad[2 * i + 1]
    for axis in range(x.ndim):  # a negative pad cuts
        start, cut = 0, x.shape[axis]
        if isinstance(low[axis], int) and low[axis] < 0:
            start, low[axis] = -low[axis], 0
        if isinstance(high[axis], int) and high[axis] < 0:
            cut, high[axis] = cut + high[axis], 0
        x = e.slice(x, axis, start, cut)
    if all(p == 0 for p in (*low, *high)):
        return x
    return e.emit("pad", x, e.operand(value, x.dtype), low=low, high=high)


@lower(aten.repeat.default)
def repeat(e: Emitter, x: Val, repeats: Any) -> Val:
    shape = (*([1] * (len(repeats) - x.ndim)), *x.shape)
    apart = e.reshape(x, [d for s in shape for d in (1, s)])
    wide = e.broadcast(apart, [d for r, s in zip(repeats, shape, strict=True) for d in (r, s)])
    return e.reshape(wide, [r * s for r, s in zip(repeats, shape, strict=True)])


@lower(aten.roll.default)
def roll(e: Emitter, x: Val, shifts: Any, dims: Any = ()) -> Val:
    flat = not dims
    y = e.reshape(x, (e.numel(x.shape),)) if flat else x
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        axis = dim % max(y.ndim, 1)
        size = y.shape[axis] if y.ndim else 1
        if not isinstance(size, int) or not isinstance(shift, int):
            raise Declined("roll over a symbolic size")
        if size == 0 or shift % size == 0:
            continue
        cut = size - shift % size
        y = e.emit("concat", e.slice(y, axis, cut, size), e.slice(y, axis, 0, cut), axis=axis)
    return e.reshape(y, x.shape)


# ---- reads


def _unwrapped(e: Emitter, index: Val, size: Any) -> Val:
    """For operators that refuse a negative index, which gather would count from the end."""
    if e.is_ramp(index):
        return index
    return e.where(e.compare("lt", index, 0), size, index, index.dtype)


@lower(aten.embedding.default)
def embedding(e: Emitter, weight: Val, indices: Val, *_: Any, **__: Any) -> Val:
    return e.emit("gather", weight, _unwrapped(e, indices, weight.shape[0]), axis=0)


@lower(aten.index_select.default)
def index_select(e: Emitter, x: Val, dim: int, index: Val) -> Val:
    if x.ndim == 0:
        return x
    axis = dim % x.ndim
    index = e.reshape(index, (e.numel(index.shape),))
    return e.emit("gather", x, _unwrapped(e, index, x.shape[axis]), axis=axis)


@lower(aten.gather.default)
def gather(e: Emitter, x: Val, dim: int, index: Val, *, sparse_grad: bool = False) -> Val:
    if x.ndim == 0 or index.ndim == 0:
        raise Declined("gather of a 0-d tensor")
    axis = dim % x.ndim
    for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)):
        if i != axis and a != b:  # reads the leading part of the other axes
            x = e.slice(x, i, 0, b)
    return e.emit("take", x, index, axis=axis)


def _joint_index(e: Emitter, indices: list[Val], sizes: list[Any]) -> Val:
    """One index into the merged axes. A coordinate out of its range makes the joint one too."""
    dtype = torch.int64
    total = e.numel(sizes)
    linear: Val | None = None
    valid: Val | None = None
    for index, size in zip(indices, sizes, strict=True):
        i = e.cast(index, dtype)
        size_v = e.operand(size, dtype)
        wrapped = e.where(e.compare("lt", i, 0), e.emit("add", i, size_v), i, dtype)
        inside = e.emit("bit_and", e.compare("ge", wrapped, 0), e.emit("lt", wrapped, size_v))
        valid = inside if valid is None else e.emit("bit_and", valid, inside)
        linear = wrapped if linear is None else e.emit("add", e.emit("mul", linear, size_v), wrapped)
    assert valid is not None
    return e.where(valid, linear, e.operand(total, dtype), dtype)


class _Indexed:
    """x[..., i, j, ...]: the indexed axes brought together at `axis` and merged into one."""

    def __init__(self, e: Emitter, x: Val, indices: Any) -> None:
        indices = [*indices, *([None] * (x.ndim - len(indices)))]
        self.at = [i for i, v in enumerate(indices) if v is not None]
        given: list[Val] = [indices[i] for i in self.at]
        if not given:
            raise Declined("index without index tensors")
        if any(v.dtype in (torch.bool, torch.uint8) for v in given):
            raise Declined("mask index: the result's size depends on data")
        together = self.at == list(range(self.at[0], self.at[-1] + 1))
        self.axis = self.at[0] if together else 0
        rest = [i for i in range(x.ndim) if i not in self.at]
        self.order = [*rest[: self.axis], *self.at, *rest[self.axis :]]
        moved = e.transpose(x, self.order)
        sizes = [x.shape[i] for i in self.at]
        self.moved_shape = moved.shape
        end = self.axis + len(self.at)
        merged = (*moved.shape[: self.axis], e.numel(sizes), *moved.shape[end:])
        self.source = e.reshape(moved, merged)
        self.index = given[0] if len(given) == 1 else _joint_index(e, given, sizes)


def _ramp_view(e: Emitter, x: Val, indices: Any) -> Val | None:
    """x indexed by coordinates of the result itself (masks are written so) is a view of x."""
    at = [i for i, v in enumerate(indices) if v is not None]
    given: list[Val] = [indices[i] for i in at]
    if not given or at != list(range(at[0], at[-1] + 1)) or not all(e.is_ramp(v) for v in given):
        return None
    rank = max(v.ndim for v in given)
    joint = e.out_shape[at[0] : at[0] + rank]
    axes = [None if (a := e.ramp_axis(v)) is None else a + rank - v.ndim for v in given]
    kept = [a for a in axes if a is not None]
    if len(set(kept)) != len(kept):
        return None
    for source, axis in zip(at, axes, strict=True):
        length = 1 if axis is None else joint[axis]
        if e.builder.range(x.shape[source] - length)[0] < 0:
            return None
        x = e.slice(x, source, 0, length)
    pairs = sorted(zip(axes, at, strict=True), key=lambda p: -1 if p[0] is None else p[0])
    x = e.transpose(x, [*range(at[0]), *(s for _, s in pairs), *range(at[-1] + 1, x.ndim)])
    apart = [joint[i] if i in kept else 1 for i in range(rank)]
    y = e.reshape(x, (*x.shape[: at[0]], *apart, *x.shape[at[-1] + 1 :]))
    return e.broadcast(y, e.out_shape)


@lower(aten.index.Tensor, aten._unsafe_index.Tensor)
def index_tensor(e: Emitter, x: Val, indices: Any) -> Val:
    view = _ramp_view(e, x, indices)
    if view is not None:
        return view
    place = _Indexed(e, x, indices)
    return e.emit("gather", place.source, place.index, axis=place.axis)


# ---- writes


@lower(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(e: Emitter, x: Val, indices: Any, values: Val, accumulate: bool = False) -> Val:
    if accumulate:
        raise Declined("index_put that accumulates")
    place = _Indexed(e, x, indices)
    source, axis, index = place.source, place.axis, place.index
    window = (*source.shape[:axis], *index.shape, *source.shape[axis + 1 :])
    count = e.numel(index.shape)
    rows = (*source.shape[:axis], count, *source.shape[axis + 1 :])
    src = e.reshape(e.broadcast(e.cast(values, x.dtype), window), rows)
    new = e.emit("scatter_update", source, e.reshape(index, (count,)), src, axis=axis)
    back = e.reshape(new, place.moved_shape)
    return e.transpose(back, [place.order.index(i) for i in range(x.ndim)])


@lower(aten.index_copy.default)
def index_copy(e: Emitter, x: Val, dim: int, index: Val, source: Val) -> Val:
    if x.ndim == 0 or source.ndim != x.ndim:
        raise Declined("index_copy of a 0-d tensor")
    index = e.reshape(index, (e.numel(index.shape),))
    return e.emit("scatter_update", x, index, source, axis=dim % x.ndim)


@lower(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(e: Emitter, x: Val, dim: int, index: Val, value: Any) -> Val:
    if x.ndim == 0:
        raise Declined("index_fill of a 0-d tensor")
    axis = dim % x.ndim
    index = e.reshape(index, (e.numel(index.shape),))
    rows = (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :])
    return e.emit("scatter_update", x, index, e.full(value, rows, x.dtype), axis=axis)


@lower(aten.slice_scatter.default)
def slice_scatter(
    e: Emitter,
    x: Val,
    src: Val,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Val:
    axis = dim % x.ndim
    start, end = slice_bounds(e, x.shape[axis], start, end, step, src.shape[axis])
    if start == 0 and step == 1 and end == x.shape[axis]:
        return e.cast(src, x.dtype)
    return e.emit("update_slice", x, e.cast(src, x.dtype), axis=axis, start=start, end=end, step=step)


@lower(aten.select_scatter.default)
def select_scatter(e: Emitter, x: Val, src: Val, dim: int, index: Any) -> Val:
    axis = dim % x.ndim
    if not isinstance(index, _C.Dim) and index < 0:
        index = x.shape[axis] + index
    row = e.unsqueeze(e.cast(src, x.dtype), axis)
    return e.emit("update_slice", x, row, axis=axis, start=index, end=index + 1, step=1)


def _one_per_row(e: Emitter, x: Val, dim: int, index: Val, value: Any) -> Val:
    """scatter that writes one element in each row along `dim`: a selection, not a scatter."""
    if x.ndim == 0 or index.ndim != x.ndim:
        raise Declined("scatter of a 0-d tensor")
    axis = dim % x.ndim
    expected = tuple(1 if i == axis else d for i, d in enumerate(x.shape))
    if index.shape != expected:
        raise Declined("scatter of more than one element a row")
    size = x.shape[axis]
    ramp = e.iota(size)
    place = e.reshape(ramp, [size if i == axis else 1 for i in range(x.ndim)])
    # Read from the ramp, an index is itself, or out of range and an error.
    inside = e.emit("gather", ramp, _unwrapped(e, index, size), axis=0)
    return e.where(e.compare("eq", place, inside), value, x, x.dtype)


@lower(aten.scatter.value)
def scatter_value(e: Emitter, x: Val, dim: int, index: Val, value: Any) -> Val:
    return _one_per_row(e, x, dim, index, value)


@lower(aten.scatter.src)
def scatter_src(e: Emitter, x: Val, dim: int, index: Val, src: Val) -> Val:
    if src.shape != index.shape:
        raise Declined("scatter from a part of its source")
    return _one_per_row(e, x, dim, index, src)
