"""Views: the shape they must have is in the node's fake result; here is which elements go where."""

from __future__ import annotations

from typing import Any

import torch

from .. import _C
from ..emitter import Declined, Emitter, Val, normalize_axes
from . import lower

aten = torch.ops.aten
_NO_END = 2**63 - 1


@lower(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten._reshape_alias.default,
    aten._reshape_copy.default,
    aten.view_copy.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten.ravel.default,
    aten.squeeze_copy.default,
    aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
    aten.unsqueeze_copy.default,
)
def reshape(e: Emitter, x: Val, *_: Any, **__: Any) -> Val:
    return e.reshape(x, e.out_shape, proven=True)


@lower(aten.expand.default, aten.expand_copy.default)
def expand(e: Emitter, x: Val, *_: Any, **__: Any) -> Val:
    return e.broadcast(x, e.out_shape)


@lower(aten.permute.default, aten.permute_copy.default)
def permute(e: Emitter, x: Val, dims: Any) -> Val:
    return e.transpose(x, dims)


@lower(aten.transpose.int, aten.transpose_copy.int)
def transpose(e: Emitter, x: Val, dim0: int, dim1: int) -> Val:
    perm = list(range(x.ndim))
    if perm:
        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return e.transpose(x, perm)


@lower(aten.t.default, aten.t_copy.default, aten.numpy_T.default)
def t(e: Emitter, x: Val) -> Val:
    return e.transpose(x, range(x.ndim - 1, -1, -1))


@lower(aten.movedim.intlist)
def movedim(e: Emitter, x: Val, source: Any, destination: Any) -> Val:
    source, destination = normalize_axes(source, x.ndim), normalize_axes(destination, x.ndim)
    rest = iter(i for i in range(x.ndim) if i not in source)
    place = dict(zip(destination, source, strict=True))
    return e.transpose(x, [place[i] if i in place else next(rest) for i in range(x.ndim)])


@lower(aten.flip.default)
def flip(e: Emitter, x: Val, dims: Any) -> Val:
    axes = sorted(d % x.ndim for d in dims) if x.ndim else []
    return e.emit("flip", x, axes=axes) if axes else x


def clipped(e: Emitter, bound: Any, size: Any) -> Any:
    """A Python slice bound as a Dim within 0..size."""
    if e.is_negative(bound):
        bound = size + bound
    if isinstance(bound, int) and isinstance(size, int):
        return min(max(bound, 0), size)
    if e.builder.range(bound)[0] < 0:
        bound = _C.dim_max(bound, 0)
    return bound if e.builder.range(size - bound)[0] >= 0 else _C.dim_min(bound, size)


def slice_bounds(e: Emitter, size: Any, start: Any, end: Any, step: int, length: Any) -> tuple[Any, Any]:
    """(start, end) of a slice whose result has `length` elements along the axis."""
    start = 0 if start is None else clipped(e, start, size)
    if step == 1:
        return start, start + length
    end = size if end is None or end == _NO_END else clipped(e, end, size)
    return start, end


@lower(aten.slice.Tensor, aten.slice_copy.Tensor)
def slice_tensor(e: Emitter, x: Val, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Val:
    axis = dim % x.ndim
    length = e.out_shape[axis]
    start, end = slice_bounds(e, x.shape[axis], start, end, step, length)
    return e.slice(x, axis, start, end, step)


@lower(aten.narrow.default, aten.narrow_copy.default)
def narrow(e: Emitter, x: Val, dim: int, start: Any, length: Any) -> Val:
    return slice_tensor(e, x, dim, start, start + length)


def select_axis(e: Emitter, x: Val, axis: int, index: Any) -> Val:
    if e.is_negative(index):
        index = x.shape[axis] + index
    row = e.slice(x, axis, index, index + 1)
    return e.reshape(row, (*x.shape[:axis], *x.shape[axis + 1 :]))


@lower(aten.select.int, aten.select_copy.int)
def select(e: Emitter, x: Val, dim: int, index: Any) -> Val:
    return select_axis(e, x, dim % x.ndim, index)


def _pieces(e: Emitter, x: Val, axis: int, sizes: Any) -> tuple[Val, ...]:
    out, start = [], 0
    for size in sizes:
        out.append(e.slice(x, axis, start, start + size))
        start = start + size
    return tuple(out)


@lower(
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.chunk.default,
    aten.unsafe_split.Tensor,
    aten.unsafe_split_with_sizes.default,
    aten.unsafe_chunk.default,
    aten.split_copy.Tensor,
    aten.split_with_sizes_copy.default,
)
def split(e: Emitter, x: Val, _sizes: Any, dim: int = 0) -> tuple[Val, ...]:
    axis = dim % x.ndim
    return _pieces(e, x, axis, [e.symbols.dim(m.shape[axis]) for m in e.meta])


@lower(aten.unbind.int, aten.unbind_copy.int)
def unbind(e: Emitter, x: Val, dim: int = 0) -> tuple[Val, ...]:
    axis = dim % x.ndim
    return tuple(select_axis(e, x, axis, i) for i in range(len(e.meta)))


@lower(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(e: Emitter, x: Val, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Val:
    a, b = dim1 % x.ndim, dim2 % x.ndim
    rest = [i for i in range(x.ndim) if i not in (a, b)]
    x = e.transpose(x, [*rest, a, b])
    rows, cols = x.shape[-2:]
    length = e.out_shape[-1]
    # Element i lies at (i + row0) * cols + i + col0: a slice of step cols + 1 of the plane.
    start = max(-offset, 0) * cols + max(offset, 0)
    flat = e.reshape(x, (*x.shape[:-2], rows * cols))
    if length == 0:
        return e.slice(flat, flat.ndim - 1, 0, 0)
    if not isinstance(cols, int) or not isinstance(length, int):
        return e.emit("gather", flat, e.iota(length, start=start, step=cols + 1), axis=flat.ndim - 1)
    return e.slice(flat, flat.ndim - 1, start, start + (length - 1) * (cols + 1) + 1, cols + 1)


def strided_places(e: Emitter, size: Any, stride: Any, offset: Any) -> Val:
    """The element of the storage that each position of an as_strided view reads."""
    place: Val | None = None
    for axis, (n, s) in enumerate(zip(size, stride, strict=True)):
        ramp = e.reshape(e.iota(n, step=s), [n if i == axis else 1 for i in range(len(size))])
        place = ramp if place is None else e.emit("add", place, ramp)
    if place is None:
        return e.full(offset, (), torch.int64)
    return e.emit("add", place, e.value(offset, torch.int64)) if offset else place


def storage_of(e: Emitter, x: Val, size: Any, stride: Any, offset: Any) -> Val:
    """The flat storage of x, as far as a view of x reads it: the argument's, or x where it fills that storage from its
    start."""
    if x.id in e.storages:
        return e.storages[x.id]
    source = e.args_meta[0]
    sizes = [*x.shape, *size, *stride, offset]
    if not all(isinstance(v, int) for v in sizes) or not source.is_contiguous() or source.storage_offset():
        raise Declined("as_strided of what is no dense tensor of constant size")
    if e.numel(size) and offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) >= e.numel(x.shape):
        raise Declined("as_strided beyond its operand")
    return e.reshape(x, (e.numel(x.shape),))


@lower(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(e: Emitter, x: Val, size: Any, stride: Any, storage_offset: Any = None) -> Val:
    source = e.args_meta[0]
    offset = e.symbols.dim(source.storage_offset()) if storage_offset is None else storage_offset
    expected: Any = 1
    start = source.storage_offset()
    plain = isinstance(start, int) and start == offset
    plain = plain and e.numel(x.shape) == e.numel(size) and source.is_contiguous()
    for d, s in zip(reversed(size), reversed(stride), strict=True):
        plain = plain and (d == 1 or s == expected)
        expected = expected * d
    if plain:
        return e.reshape(x, size)
    flat = storage_of(e, x, size, stride, offset)
    return e.reshape(e.emit("gather", flat, strided_places(e, size, stride, offset), axis=0), size)


@lower(aten.unfold.default, aten.unfold_copy.default)
def unfold(e: Emitter, x: Val, dimension: int, size: int, step: int) -> Val:
    """Windows of `size` every `step` along an axis; the window becomes the last axis."""
    if x.ndim == 0:
        return e.reshape(x, e.out_shape)
    axis = dimension % x.ndim
    count = e.out_shape[axis]
    starts = e.reshape(e.iota(count, step=step), (count, 1))
    windows = e.emit("gather", x, e.emit("add", starts, e.iota(size)), axis=axis)
    order = [i for i in range(x.ndim + 1) if i != axis + 1]
    return e.transpose(windows, [*order, axis + 1])
