"""Pooling. Averages are sums of shifted strided windows, in the order in which eager's loops add them; maxima with
their places are a library call."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from .. import _C
from ..emitter import Declined, Emitter, Val, is_float, opmath
from . import lower

aten = torch.ops.aten
_MOST_TERMS = 64  # windows of more elements are left to eager


def _tuple(v: Any, n: int, default: list[int]) -> list[int]:
    v = [v] if isinstance(v, int) else list(v)
    if not v:
        return default
    return v * n if len(v) == 1 else v


@lower(aten.max_pool2d_with_indices.default)
def max_pool2d(
    e: Emitter,
    x: Val,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Val, Val]:
    kernel = _tuple(kernel_size, 2, [])
    plane = x if x.ndim == 4 else e.unsqueeze(x, 0)
    values, indices = e.emit_multi(
        "max_pool",
        plane,
        kernel=kernel,
        stride=_tuple(stride, 2, kernel),
        padding=_tuple(padding, 2, [0, 0]),
        dilation=_tuple(dilation, 2, [1, 1]),
        ceil=ceil_mode,
    )
    shape = e.symbols.dims(e.meta[0].shape)
    return e.reshape(values, shape), e.reshape(indices, shape)


def _tiles(e: Emitter, x: Val, out: list[int]) -> Val:
    """Means over whole tiles of the trailing axes."""
    n = len(out)
    sizes = x.shape[-n:]
    split = [d for s, o in zip(sizes, out, strict=True) for d in (o, s // o)]
    tiles = e.reshape(x, (*x.shape[:-n], *split))
    first = x.ndim - n
    return e.mean(tiles, [first + 2 * i + 1 for i in range(n)], False)


@lower(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool(e: Emitter, x: Val, output_size: Any) -> Val:
    """To a size that divides the plane: a mean over whole tiles."""
    out = list(output_size)
    sizes = x.shape[-len(out) :]
    if not all(isinstance(v, int) for v in (*sizes, *out)) or any(o == 0 or s % o for s, o in zip(sizes, out)):
        raise Declined("adaptive pooling to a size that does not divide the plane")
    return e.cast(_tiles(e, e.cast(x, opmath(x.dtype)), out), x.dtype)


def _window_counts(e: Emitter, size: int, out: int, kernel: int, stride: int, pad: int, inside: bool) -> list[int]:
    """How many elements each window along one axis counts: those of the padded axis, or only those inside."""
    counts = []
    for i in range(out):
        start = i * stride - pad
        end = min(start + kernel, size + pad)
        if inside:
            start, end = max(start, 0), min(end, size)
        counts.append(max(end - start, 0))
    return counts


def _ladder(e: Emitter, counts: list[int], dtype: torch.dtype) -> Val:
    """The counts along one axis as a tensor: a window differs from the middle ones only near an end."""
    size = len(counts)
    place = e.iota(size)
    common = counts[size // 2]
    out = e.full(common, (size,), dtype)
    for i, c in enumerate(counts):
        if c != common:
            out = e.where(e.compare("eq", place, i), c, out, dtype)
    return out


def _symbolic_counts(e: Emitter, size: Any, out: Any, window: tuple[int, int, int], inside: bool, dtype: Any) -> Val:
    """As _window_counts, of an axis whose sizes are known when the graph runs."""
    kernel, stride, pad = window
    start = e.iota(out, start=-pad, step=stride)
    end = e.emit("minimum", e.add(start, kernel), e.value(size + pad, torch.int64))
    if inside:
        start = e.emit("maximum", start, e.lit(0, torch.int64))
        end = e.emit("minimum", end, e.value(size, torch.int64))
    return e.cast(e.emit("maximum", e.sub(end, start), e.lit(0, torch.int64)), dtype)


def _divisor(e: Emitter, x: Val, out: list[Any], geometry: Any, inside: bool, ceil: bool) -> Val | int:
    """Elements counted by each window: a number, or a tensor over the trailing axes."""
    n = len(out)
    total: Val | int = 1
    for i, (size, o, (k, s, p)) in enumerate(zip(x.shape[-n:], out, geometry, strict=True)):
        symbolic = not isinstance(size, int) or not isinstance(o, int)
        whole = symbolic and not ceil and (p == 0 or not inside)
        counts = [k] if symbolic else _window_counts(e, size, o, k, s, p, inside)
        if symbolic and not whole:
            ladder = _symbolic_counts(e, size, o, (k, s, p), inside, x.dtype)
            factor: Val | int = e.reshape(ladder, [o if j == i else 1 for j in range(n)])
        elif len(set(counts)) <= 1:
            factor = counts[0] if counts else 1
        elif sum(c != counts[o // 2] for c in counts) > 16:
            raise Declined("average pooling whose windows differ all over")
        else:
            factor = e.reshape(_ladder(e, counts, x.dtype), [o if j == i else 1 for j in range(n)])
        if isinstance(factor, int) and isinstance(total, int):
            total = total * factor
        elif isinstance(total, Val):
            total = e.mul(total, factor)
        else:
            total = e.mul(e.value(factor), total)
    return total


def _avg_pool(n: int) -> Any:
    def pool(
        e: Emitter,
        x: Val,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Val:
        divisor: Val | int | None
        kernel = _tuple(kernel_size, n, [])
        geometry = list(zip(kernel, _tuple(stride, n, kernel), _tuple(padding, n, [0] * n), strict=True))
        sizes, out = x.shape[-n:], list(e.out_shape[-n:])
        wide = e.cast(x, opmath(x.dtype))
        whole = all(k == s and p == 0 and size == o * k for (k, s, p), size, o in zip(geometry, sizes, out))
        if whole and divisor_override is None and is_float(x.dtype):
            return e.cast(_tiles(e, wide, out), x.dtype)
        total, divisor = _window_sum(e, wide, out, geometry), divisor_override
        if divisor is None:
            divisor = _divisor(e, wide, out, geometry, not count_include_pad, ceil_mode)
        quotient = "div" if is_float(x.dtype) else "trunc_div"
        return e.cast(e.emit(quotient, total, e.operand(divisor, wide.dtype)), x.dtype)

    return pool


def _every(e: Emitter, x: Val, axis: int, start: int, count: Any, step: int) -> Val:
    """`count` elements along the axis, `step` apart."""
    if not isinstance(count, int) or not isinstance(x.shape[axis], int):
        return e.emit("gather", x, e.iota(count, start=start, step=step), axis=axis)
    return e.slice(x, axis, start, start + (count - 1) * step + 1 if count else start, step)


def _window_sum(e: Emitter, x: Val, out: list[Any], geometry: Any) -> Val:
    """Sums over windows, (kernel, stride, padding) an axis: shifted strided slices of the padded plane."""
    n = len(out)
    axes: list[tuple[int, ...]] = [(i,) for i in range(n)]
    if math.prod(k for k, _, _ in geometry) <= _MOST_TERMS:
        axes = [tuple(range(n))]
    elif sum(k for k, _, _ in geometry) > _MOST_TERMS:
        raise Declined("average pooling over large windows that overlap or are padded")
    first = x.ndim - n
    low: list[int] = [0] * x.ndim
    high: list[Any] = [0] * x.ndim
    for i, (size, o, (k, s, p)) in enumerate(zip(x.shape[-n:], out, geometry, strict=True)):
        low[first + i] = p
        past = (o - 1) * s + k - size - p  # windows may reach past the end
        high[first + i] = max(past, 0) if isinstance(past, int) else _C.dim_max(past, 0)
    if any(w != 0 for w in (*low, *high)):
        x = e.emit("pad", x, e.lit(0, x.dtype), low=low, high=high)
    for together in axes:  # large windows axis by axis
        total: Val | None = None
        for place in itertools.product(*(range(geometry[i][0]) for i in together)):
            term = x
            for i, at in zip(together, place, strict=True):
                term = _every(e, term, first + i, at, out[i], geometry[i][1])
            total = term if total is None else e.add(total, term)
        assert total is not None
        x = total
    return x


lower(aten.avg_pool2d.default)(_avg_pool(2))
lower(aten.avg_pool3d.default)(_avg_pool(3))


def _spread(e: Emitter, grad: Val, sizes: list[int], geometry: Any) -> Val:
    """Adds each element to the window that it came from, axis by axis: the transpose of _window_sum."""
    n = len(sizes)
    for i, (size, (k, s, p)) in enumerate(zip(sizes, geometry, strict=True)):
        axis = grad.ndim - n + i
        o = grad.shape[axis]
        apart = e.unsqueeze(grad, axis + 1)  # s - 1 zeros behind each element
        apart = e.emit(
            "pad",
            apart,
            e.lit(0, grad.dtype),
            low=[0] * apart.ndim,
            high=[s - 1 if a == axis + 1 else 0 for a in range(apart.ndim)],
        )
        apart = e.reshape(apart, (*grad.shape[:axis], o * s, *grad.shape[axis + 1 :]))
        length = max(o * s + k - 1, size + p)
        total: Val | None = None
        for at in range(k):
            ends = [at, length - o * s - at]
            low = [ends[0] if a == axis else 0 for a in range(grad.ndim)]
            high = [ends[1] if a == axis else 0 for a in range(grad.ndim)]
            moved = e.emit("pad", apart, e.lit(0, grad.dtype), low=low, high=high)
            total = moved if total is None else e.add(total, moved)
        assert total is not None
        grad = e.slice(total, axis, p, p + size)
    return grad


def _avg_pool_backward(n: int) -> Any:
    def backward(
        e: Emitter,
        grad: Val,
        x: Val,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Val:
        kernel = _tuple(kernel_size, n, [])
        geometry = list(zip(kernel, _tuple(stride, n, kernel), _tuple(padding, n, [0] * n), strict=True))
        sizes, out = list(x.shape[-n:]), list(grad.shape[-n:])
        if not is_float(x.dtype) or not all(isinstance(d, int) for d in (*sizes, *out)):
            raise Declined("gradient of average pooling of a symbolic plane or of integers")
        if sum(k for k, _, _ in geometry) > _MOST_TERMS:
            raise Declined("gradient of average pooling over large windows")
        wide = e.cast(grad, opmath(grad.dtype))
        count = (
            _divisor(e, e.cast(x, wide.dtype), out, geometry, not count_include_pad, ceil_mode)
            if divisor_override is None
            else divisor_override
        )
        return e.cast(_spread(e, e.div(wide, count), sizes, geometry), x.dtype)

    return backward


lower(aten.avg_pool2d_backward.default)(_avg_pool_backward(2))
lower(aten.avg_pool3d_backward.default)(_avg_pool_backward(3))


@lower(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool2d_backward(e: Emitter, grad: Val, x: Val) -> Val:
    return _adaptive_backward(e, grad, x, 2)


@lower(aten._adaptive_avg_pool3d_backward.default)
def adaptive_avg_pool3d_backward(e: Emitter, grad: Val, x: Val) -> Val:
    return _adaptive_backward(e, grad, x, 3)


def _adaptive_backward(e: Emitter, grad: Val, x: Val, n: int) -> Val:
    sizes, out = x.shape[-n:], grad.shape[-n:]
    if not all(isinstance(v, int) for v in (*sizes, *out)) or any(o == 0 or s % o for s, o in zip(sizes, out)):
        raise Declined("adaptive pooling to a size that does not divide the plane")
    wide = e.cast(grad, opmath(grad.dtype))
    count = math.prod(s // o for s, o in zip(sizes, out, strict=True))
    each = e.div(wide, count)
    apart = e.reshape(each, (*grad.shape[:-n], *(d for o in out for d in (o, 1))))
    tiles = (*grad.shape[:-n], *(d for s, o in zip(sizes, out, strict=True) for d in (o, s // o)))
    return e.cast(e.reshape(e.broadcast(apart, tiles), x.shape), x.dtype)


def _max_unpool(n: int) -> Any:
    def unpool(e: Emitter, x: Val, indices: Val, output_size: Any, *_: Any) -> Val:
        """Each value goes to its place in the plane; the rest is zero."""
        leading = x.shape[: x.ndim - n]
        planes, count = e.numel(leading), e.numel(x.shape[x.ndim - n :])
        base = e.full(0, (planes, e.numel(e.out_shape[-n:])), x.dtype)
        flat = (planes, count)
        new = e.emit("scatter", base, e.reshape(indices, flat), e.reshape(x, flat), axis=1)
        return e.reshape(new, e.out_shape)

    return unpool


lower(aten.max_unpool2d.default)(_max_unpool(2))
lower(aten.max_unpool3d.default)(_max_unpool(3))
