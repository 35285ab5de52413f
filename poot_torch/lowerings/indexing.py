"""Joining, padding, repeating, and reading through index tensors."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import Declined, Emitter, Val
from . import REFUSED, lower

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
        start: Any = 0
        cut = x.shape[axis]
        if e.is_negative(low[axis]):
            start, low[axis] = 0 - low[axis], 0
        if e.is_negative(high[axis]):
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
            place = e.sub(e.iota(size), shift)
            y = e.emit("gather", y, e.emit("remainder", place, e.value(size, torch.int64)), axis=axis)
            continue
        if size == 0 or shift % size == 0:
            continue
        cut = size - shift % size
        y = e.emit("concat", e.slice(y, axis, cut, size), e.slice(y, axis, 0, cut), axis=axis)
    return e.reshape(y, x.shape)


# ---- reads


def unwrapped(e: Emitter, index: Val, size: Any) -> Val:
    """For operators that refuse a negative index, which gather would count from the end."""
    if e.is_ramp(index):
        return index
    return e.where(e.compare("lt", index, 0), size, index, index.dtype)


def _of_no_rows(node: torch.fx.Node) -> str | None:
    rows = node.args[0].meta["val"].shape[0]  # type: ignore[union-attr]
    return "eager refuses a table without rows" if isinstance(rows, int) and rows == 0 else None


def _of_a_scalar(node: torch.fx.Node) -> str | None:
    x, index = (node.args[i].meta["val"] for i in (0, 2))  # type: ignore[union-attr]
    refused = x.ndim == 0 and index.ndim == 1 and index.shape[0] != 1
    return "eager takes one element of a scalar" if refused else None


REFUSED[aten.embedding.default] = _of_no_rows
REFUSED[aten.index_select.default] = _of_a_scalar


@lower(aten.embedding.default)
def embedding(e: Emitter, weight: Val, indices: Val, *_: Any, **__: Any) -> Val:
    return e.emit("gather", weight, unwrapped(e, indices, weight.shape[0]), axis=0)


@lower(aten.index_select.default)
def index_select(e: Emitter, x: Val, dim: int, index: Val) -> Val:
    if x.ndim == 0:
        return x
    axis = dim % x.ndim
    index = e.reshape(index, (e.numel(index.shape),))
    return e.emit("gather", x, unwrapped(e, index, x.shape[axis]), axis=axis)


@lower(aten.take.default)
def take(e: Emitter, x: Val, index: Val) -> Val:
    return e.emit("gather", e.reshape(x, (e.numel(x.shape),)), index, axis=0)


@lower(aten.gather.default)
def gather(e: Emitter, x: Val, dim: int, index: Val, *, sparse_grad: bool = False) -> Val:
    if any(d == 0 for d in index.shape):  # such an index may have any rank
        return e.full(0, e.out_shape, x.dtype)
    if x.ndim == 0 or index.ndim == 0:
        x, index = (v if v.ndim else e.reshape(v, (1,)) for v in (x, index))
        return e.reshape(e.emit("take", x, index, axis=0), e.out_shape)
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


class Indexed:
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
    place = Indexed(e, x, indices)
    return e.emit("gather", place.source, place.index, axis=place.axis)
