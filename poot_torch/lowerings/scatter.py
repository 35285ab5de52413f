"""Writes through index tensors and into slices of a base."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..emitter import REDUCED, Declined, Emitter, Val, is_float
from . import lower
from .indexing import Indexed
from .scans import cumsum
from .views import slice_bounds, storage_of, strided_places

aten = torch.ops.aten


def _row(e: Emitter, x: Val) -> Val:
    """A 0-d tensor as one of one element."""
    return x if x.ndim else e.reshape(x, (1,))


_OF_MASKS = {"add": "maximum", "mul": "minimum", "maximum": "maximum", "minimum": "minimum"}


def _updated(e: Emitter, op: str, base: Val, index: Val, src: Val, **attrs: Any) -> Val:
    """scatter or scatter_update; masks accumulate by or and and, which are extremes of bytes."""
    if base.dtype is not torch.bool or "fn" not in attrs:
        return e.emit(op, base, index, src, **attrs)
    base, src = e.cast(base, torch.uint8), e.cast(src, torch.uint8)
    return e.cast(e.emit(op, base, index, src, **{**attrs, "fn": _OF_MASKS[attrs["fn"]]}), torch.bool)


# ---- rows


def _put_rows(e: Emitter, x: Val, indices: Any, values: Val, **attrs: Any) -> Val:
    place = Indexed(e, x, indices)
    source, axis, index = place.source, place.axis, place.index
    window = (*source.shape[:axis], *index.shape, *source.shape[axis + 1 :])
    count = e.numel(index.shape)
    rows = (*source.shape[:axis], count, *source.shape[axis + 1 :])
    src = e.reshape(e.broadcast(e.cast(values, x.dtype), window), rows)
    new = _updated(e, "scatter_update", source, e.reshape(index, (count,)), src, axis=axis, **attrs)
    back = e.reshape(new, place.moved_shape)
    return e.transpose(back, [place.order.index(i) for i in range(x.ndim)])


def _put_where(e: Emitter, x: Val, mask: Val, value: Val) -> Val:
    """x[mask] = value: a selection, where one value goes to every place."""
    if mask.dtype is not torch.bool or any(d != 1 for d in value.shape):
        raise Declined("mask index: the number of values depends on data")
    leading = e.reshape(mask, (*mask.shape, *(1 for _ in x.shape[mask.ndim :])))
    return e.where(leading, e.reshape(value, ()), x, x.dtype)


@lower(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(e: Emitter, x: Val, indices: Any, values: Val, accumulate: bool = False) -> Val:
    given = [v for v in indices if v is not None]
    values = e.cast(values, x.dtype)
    if len(given) == 1 and indices[0] is given[0] and given[0].dtype is torch.bool and not accumulate:
        return _put_where(e, x, given[0], values)
    return _put_rows(e, x, indices, values, **({"fn": "add"} if accumulate else {}))


def _rows(e: Emitter, x: Val, dim: int, index: Val, source: Val, **attrs: Any) -> Val:
    """x with its rows along dim updated by those of source; x and source may be 0-d."""
    if x.ndim and e.numel(index.shape) == 0:
        return x
    base, source = _row(e, x), _row(e, source)
    index = e.reshape(index, (e.numel(index.shape),))
    axis = dim % base.ndim
    if source.ndim != base.ndim:
        raise Declined("rows of another rank")
    new = _updated(e, "scatter_update", base, index, e.cast(source, x.dtype), axis=axis, **attrs)
    return e.reshape(new, x.shape)


@lower(aten.index_copy.default)
def index_copy(e: Emitter, x: Val, dim: int, index: Val, source: Val) -> Val:
    return _rows(e, x, dim, index, source, exact=True)


@lower(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(e: Emitter, x: Val, dim: int, index: Val, value: Any) -> Val:
    base = _row(e, x)
    axis = dim % base.ndim
    rows = (*base.shape[:axis], e.numel(index.shape), *base.shape[axis + 1 :])
    return _rows(e, x, dim, index, e.full(value, rows, x.dtype))


@lower(aten.index_add.default)
def index_add(e: Emitter, x: Val, dim: int, index: Val, source: Val, *, alpha: Any = 1) -> Val:
    scaled = source if alpha == 1 else e.pointwise("mul", (source, alpha), x.dtype)
    if x.ndim > 1:  # eager scatters, with scatter's error for an index out of range
        axis = dim % x.ndim
        column = e.reshape(index, [e.numel(index.shape) if i == axis else 1 for i in range(x.ndim)])
        # As eager's scatter of whole rows, which accumulates f16 and bf16 in f32.
        wide = torch.float32 if x.dtype in REDUCED else x.dtype
        total = _scattered(e, e.cast(x, wide), axis, e.broadcast(column, source.shape), scaled, fn="add")
        return e.cast(total, x.dtype)
    return _rows(e, x, dim, index, scaled, exact=True, fn="add")


@lower(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    e: Emitter, grad: Val, indices: Val, num_weights: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Val:
    if scale_grad_by_freq:
        raise Declined("gradients divided by how often a row is used")
    count = e.numel(indices.shape)
    index = e.reshape(indices, (count,))
    rows = e.reshape(grad, (count, grad.shape[-1]))
    if padding_idx >= 0:
        kept = e.reshape(e.compare("ne", index, padding_idx), (count, 1))
        rows = e.where(kept, rows, 0.0, rows.dtype)
    zeros = e.full(0, (num_weights, grad.shape[-1]), grad.dtype)
    return e.emit("scatter_update", zeros, index, rows, axis=0, exact=True, fn="add")


# ---- elements


def _one_per_row(e: Emitter, x: Val, axis: int, index: Val, value: Any) -> Val | None:
    """scatter that writes one element in each row along the axis: a selection, which fuses."""
    if index.shape != tuple(1 if i == axis else d for i, d in enumerate(x.shape)):
        return None
    size = x.shape[axis]
    place = e.reshape(e.iota(size), [size if i == axis else 1 for i in range(x.ndim)])
    # Read from the ramp, an index is itself, or out of range and an error.
    inside = e.emit("take", e.broadcast(place, x.shape), index, axis=axis)
    return e.where(e.compare("eq", place, inside), value, x, x.dtype)


def _scattered(e: Emitter, x: Val, dim: int, index: Val, src: Any, **attrs: Any) -> Val:
    """`src`: a tensor at least as large as index, or a number."""
    base, index = _row(e, x), _row(e, index)
    axis = dim % base.ndim
    if index.ndim != base.ndim:
        raise Declined("scatter through an index of another rank")
    if isinstance(src, Val):
        src = e.cast(_row(e, src), x.dtype)
        for i, n in enumerate(index.shape):  # only the part that has an index is read
            src = e.slice(src, i, 0, n)
    if not attrs:
        selected = _one_per_row(e, base, axis, index, src)
        if selected is not None:
            return e.reshape(selected, x.shape)
    if not isinstance(src, Val):
        src = e.full(src, index.shape, x.dtype)
    return e.reshape(_updated(e, "scatter", base, index, src, axis=axis, **attrs), x.shape)


@lower(aten.scatter.value, aten.scatter.src)
def scatter(e: Emitter, x: Val, dim: int, index: Val, src: Any) -> Val:
    return _scattered(e, x, dim, index, src)


@lower(aten.scatter_add.default)
def scatter_add(e: Emitter, x: Val, dim: int, index: Val, src: Val) -> Val:
    return _scattered(e, x, dim, index, src, fn="add")


@lower(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_step(e: Emitter, x: Val, dim: int, index: Val, src: Any, *, reduce: str) -> Val:
    return _scattered(e, x, dim, index, src, fn={"add": "add", "multiply": "mul"}[reduce])


_STEPS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "maximum", "amin": "minimum"}


def _identity(reduce: str, dtype: torch.dtype) -> Any:
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    least = reduce == "amax"
    if dtype is torch.bool:
        return not least
    if is_float(dtype):
        return -math.inf if least else math.inf
    return torch.iinfo(dtype).min if least else torch.iinfo(dtype).max


def _no_means_of_masks(x: Val, reduce: str) -> None:
    if x.dtype is torch.bool and reduce == "mean":
        raise Declined("means of masks")


def _mean_of(e: Emitter, total: Val, count: Val) -> Val:
    if is_float(total.dtype):
        return e.div(total, count)
    return e.emit("floor_div", total, count)


@lower(aten.scatter_reduce.two)
def scatter_reduce(
    e: Emitter, x: Val, dim: int, index: Val, src: Val, reduce: str, *, include_self: bool = True
) -> Val:
    _no_means_of_masks(x, reduce)
    base = x
    if not include_self:
        base = _scattered(e, x, dim, index, _identity(reduce, x.dtype))
    out = _scattered(e, base, dim, index, src, fn=_STEPS[reduce])
    if reduce != "mean":
        return out
    ones = e.full(1, x.shape, x.dtype)
    count = ones if include_self else _scattered(e, ones, dim, index, 0)
    return _mean_of(e, out, _scattered(e, count, dim, index, 1, fn="add"))


@lower(aten.index_reduce.default)
def index_reduce(
    e: Emitter, x: Val, dim: int, index: Val, source: Val, reduce: str, *, include_self: bool = True
) -> Val:
    _no_means_of_masks(x, reduce)
    if x.ndim == 0 and e.numel(index.shape) == 0:
        raise Declined("an empty index into a 0-d tensor, which eager refuses")
    base, rows = _row(e, x), _row(e, source)

    def same(number: Any) -> Val:
        return e.full(number, rows.shape, x.dtype)

    if not include_self:
        base = _rows(e, base, dim, index, same(_identity(reduce, x.dtype)), exact=True)
    out = _rows(e, base, dim, index, rows, exact=True, fn=_STEPS[reduce])
    if reduce == "mean":
        count = e.full(1, base.shape, x.dtype)
        if not include_self:
            count = _rows(e, count, dim, index, same(0), exact=True)
        out = _mean_of(e, out, _rows(e, count, dim, index, same(1), exact=True, fn="add"))
    return e.reshape(out, x.shape)


@lower(aten.put.default)
def put(e: Emitter, x: Val, index: Val, source: Val, accumulate: bool = False) -> Val:
    count = e.numel(index.shape)
    flat = e.reshape(x, (e.numel(x.shape),))
    attrs = {"fn": "add"} if accumulate else {}
    places, values = e.reshape(index, (count,)), e.reshape(source, (count,))
    new = _updated(e, "scatter_update", flat, places, values, axis=0, **attrs)
    return e.reshape(new, x.shape)


@lower(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(e: Emitter, grad: Val, x: Val, *geometry: Any) -> Val:
    """Each gradient is added at the place in the plane that its maximum came from."""
    indices: Val = geometry[-1]
    planes, places = e.numel(x.shape[:-2]), e.numel(grad.shape[-2:])
    base = e.full(0, (planes, e.numel(x.shape[-2:])), grad.dtype)
    flat = (planes, places)
    new = e.emit("scatter", base, e.reshape(indices, flat), e.reshape(grad, flat), axis=1, fn="add")
    return e.reshape(new, x.shape)


# ---- slices


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
    src = e.cast(src, x.dtype)
    if not isinstance(step, int):
        places = e.iota(src.shape[axis], start=start, step=step)
        return e.emit("scatter_update", x, places, src, axis=axis)
    return e.emit("update_slice", x, src, axis=axis, start=start, end=end, step=step)


@lower(aten.select_scatter.default)
def select_scatter(e: Emitter, x: Val, src: Val, dim: int, index: Any) -> Val:
    axis = dim % x.ndim
    if e.is_negative(index):
        index = x.shape[axis] + index
    row = e.unsqueeze(e.cast(src, x.dtype), axis)
    return e.emit("update_slice", x, row, axis=axis, start=index, end=index + 1, step=1)


@lower(aten.diagonal_scatter.default)
def diagonal_scatter(e: Emitter, x: Val, src: Val, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Val:
    a, b = dim1 % x.ndim, dim2 % x.ndim
    order = [*(i for i in range(x.ndim) if i not in (a, b)), a, b]
    plane = e.transpose(x, order)
    rows, cols = plane.shape[-2:]
    length = src.shape[-1]
    flat = e.reshape(plane, (*plane.shape[:-2], rows * cols))
    first = max(-offset, 0) * cols + max(offset, 0)
    if not isinstance(cols, int) or not isinstance(length, int):
        places = e.iota(length, start=first, step=cols + 1)
        flat = e.emit("scatter_update", flat, places, e.cast(src, x.dtype), axis=flat.ndim - 1)
    elif length:
        end = first + (length - 1) * (cols + 1) + 1
        flat = e.emit(
            "update_slice", flat, e.cast(src, x.dtype), axis=flat.ndim - 1, start=first, end=end, step=cols + 1
        )
    return e.transpose(e.reshape(flat, plane.shape), [order.index(i) for i in range(x.ndim)])


@lower(aten.as_strided_scatter.default)
def as_strided_scatter(e: Emitter, x: Val, src: Val, size: Any, stride: Any, storage_offset: Any = None) -> Val:
    source = e.args_meta[0]
    start, strides = e.symbols.dim(source.storage_offset()), e.symbols.dims(source.stride())
    offset = start if storage_offset is None else storage_offset
    flat, count = storage_of(e, x, size, stride, offset), (e.numel(size),)
    places = e.reshape(strided_places(e, size, stride, offset), count)
    new = e.emit("scatter_update", flat, places, e.reshape(e.cast(src, x.dtype), count), axis=0)
    if x.id not in e.storages:
        return e.reshape(new, x.shape)
    return e.emit("gather", new, strided_places(e, x.shape, strides, start), axis=0)


@lower(aten.masked_scatter.default)
def masked_scatter(e: Emitter, x: Val, mask: Val, source: Val) -> Val:
    """The n-th masked place reads the n-th element of source; one behind its end is an error."""
    shape = e.out_shape
    x, mask = e.broadcast(x, shape), e.broadcast(mask, shape)
    count = e.numel(shape)
    if count == 0:
        return x
    order = cumsum(e, e.reshape(e.cast(mask, torch.int64), (count,)), 0, dtype=torch.int64)
    hit = e.reshape(mask, (count,))
    elements, first = e.reshape(source, (e.numel(source.shape),)), 1
    if e.numel(source.shape) == 0:  # then any place is behind its end
        elements, first = e.full(0, (1,), x.dtype), 0
    place = e.where(hit, e.sub(order, first), 0, torch.int64)
    values = e.emit("take", elements, place, axis=0)
    return e.reshape(e.where(hit, values, e.reshape(x, (count,)), x.dtype), shape)
