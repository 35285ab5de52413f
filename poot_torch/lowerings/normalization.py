"""Softmax and the norms. Eager keeps everything between load and store in f32."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from .. import _C, row_operators  # noqa: F401 - defines poot::row_sum
from ..emitter import Declined, Emitter, Val, is_float, opmath
from . import REFUSED, lower
from .reductions import moments, trailing

aten = torch.ops.aten


def _softmax(e: Emitter, x: Val, dim: int, finish: Callable[[Val, Val], Val]) -> Val:
    """`finish` of x - max and the sum of its exponentials along the axis. Where there are gradients, rows of f32 add as
    eager's do; elsewhere in the order that suits a maximum and exponentials of fewer passes."""
    wide = e.cast(x, opmath(x.dtype))
    if any(d == 0 for d in x.shape if isinstance(d, int)):
        return e.full(0, x.shape, e.out_dtype)
    if x.ndim == 0:
        return e.cast(finish(e.sub(wide, wide), e.full(1, (), wide.dtype)), e.out_dtype)
    wide, axis, back = trailing(e, wide, [dim % x.ndim])
    shifted = e.sub(wide, e.reduce("max", wide, axis, True))
    order = "vector" if e.trains_f32_on_cpu and dim % x.ndim == x.ndim - 1 else None
    total = e.reduce("sum", e.emit("exp", shifted), axis, True, order)
    return e.transpose(e.cast(finish(shifted, total), e.out_dtype), back)


@lower(torch.ops.poot.row_sum.default)
def row_sum(e: Emitter, x: Val, order: str) -> Val:
    return e.reduce("sum", x, [x.ndim - 1], True, order)


@lower(torch.ops.poot.row_log.default)
def row_log(e: Emitter, x: Val) -> Val:
    return e.emit("log_vector", x)


@lower(aten._softmax.default)
def softmax(e: Emitter, x: Val, dim: int, half_to_float: bool) -> Val:
    def finish(shifted: Val, total: Val) -> Val:
        powers = e.emit("exp", shifted)
        return e.div(powers, total) if e.on_gpu else e.mul(powers, e.emit("reciprocal", total))

    return _softmax(e, x, dim, finish)


@lower(aten._safe_softmax.default)
def safe_softmax(e: Emitter, x: Val, dim: int, dtype: torch.dtype | None = None) -> Val:
    """Softmax whose rows of -inf are zeros."""
    axis = dim % max(x.ndim, 1)
    plain = softmax(e, x, dim, False)
    masked = e.reduce("all", e.compare("eq", x, -math.inf), [axis], True)
    return e.where(masked, 0.0, plain, plain.dtype)


@lower(aten._log_softmax.default)
def log_softmax(e: Emitter, x: Val, dim: int, half_to_float: bool) -> Val:
    log = "log_vector" if e.trains_f32_on_cpu else "log"
    return _softmax(e, x, dim, lambda shifted, total: e.sub(shifted, e.emit(log, total)))


def _affine(e: Emitter, y: Val, weight: Val | None, bias: Val | None) -> Val:
    """y * weight + bias; in one rounding on a GPU, as the compiler of eager's kernels has it."""
    if e.on_gpu and weight is not None and bias is not None:
        return e.emit("fma", y, e.cast(weight, y.dtype), e.cast(bias, y.dtype))
    if weight is not None:
        y = e.mul(y, e.cast(weight, y.dtype))
    return y if bias is None else e.add(y, e.cast(bias, y.dtype))


def _normalized(e: Emitter, x: Val, axes: list[int], eps: float) -> tuple[Val, Val, Val]:
    """((x - mean) * rstd, mean, rstd); axes kept."""
    var, mean = moments(e, x, axes, 0)
    rstd = e.emit("rsqrt", e.add(var, eps))
    return e.mul(e.sub(x, mean), rstd), mean, rstd


def _as_eager(
    e: Emitter, x: Val, axes: list[int], weight: Val | None, bias: Val | None, eps: float
) -> tuple[Val, Val, Val]:
    """Layer norm of f32 with the bits of eager's on the CPU, whose compiler joins the last product and sum."""
    count = e.numel([x.shape[a] for a in axes])
    mean, squares = e.moments(x, axes)
    rstd = e.emit("rsqrt", e.add(e.div(squares, count), eps))
    centred, shift = e.sub(x, mean), e.full(0, (), x.dtype) if bias is None else bias
    if weight is None:
        return e.emit("fma", centred, rstd, shift), mean, rstd
    return e.emit("fma", e.mul(centred, rstd), weight, shift), mean, rstd


@lower(aten.native_layer_norm.default)
def layer_norm(
    e: Emitter, x: Val, normalized_shape: Any, weight: Val | None, bias: Val | None, eps: float
) -> tuple[Val, Val, Val]:
    axes = list(range(x.ndim - len(normalized_shape), x.ndim))
    count = e.numel([x.shape[a] for a in axes])
    if e.trains_f32_on_cpu and isinstance(count, int) and count > 1:
        return _as_eager(e, x, axes, weight, bias, eps)
    y, mean, rstd = _normalized(e, e.cast(x, opmath(x.dtype)), axes, eps)
    y = e.cast(_affine(e, y, weight, bias), x.dtype)
    return y, e.cast(mean, e.meta[1].dtype), e.cast(rstd, e.meta[2].dtype)


@lower(aten._fused_rms_norm.default)
def rms_norm(e: Emitter, x: Val, normalized_shape: Any, weight: Val | None, eps: float | None) -> tuple[Val, Val]:
    axes = list(range(x.ndim - len(normalized_shape), x.ndim))
    wide = e.cast(x, opmath(x.dtype))
    eps = torch.finfo(wide.dtype).eps if eps is None else eps
    rstd = e.emit("rsqrt", e.add(e.mean(e.mul(wide, wide), axes, True, cascaded=True), eps))
    y = e.cast(_affine(e, e.mul(wide, rstd), weight, None), x.dtype)
    return y, e.cast(rstd, e.meta[1].dtype)


def _unordered(node: torch.fx.Node) -> str | None:
    x = node.args[0].meta["val"]  # type: ignore[union-attr]
    ordered = x.device.type != "cpu" or x.is_contiguous(memory_format=suggest_memory_format(x))
    return None if ordered else "eager refuses operands that are neither contiguous nor channels-last"


REFUSED[aten.native_group_norm.default] = _unordered


@lower(aten.native_group_norm.default)
def group_norm(
    e: Emitter,
    x: Val,
    weight: Val | None,
    bias: Val | None,
    n: Any,
    c: Any,
    hxw: Any,
    group: int,
    eps: float,
) -> tuple[Val, Val, Val]:
    wide = e.reshape(e.cast(x, opmath(x.dtype)), (n, group, c // group * hxw))
    y, mean, rstd = _normalized(e, wide, [2], eps)
    column = (1, c, 1)
    weight = None if weight is None else e.reshape(weight, column)
    bias = None if bias is None else e.reshape(bias, column)
    y = _affine(e, e.reshape(y, (n, c, hxw)), weight, bias)
    out = e.cast(e.reshape(y, x.shape), x.dtype)
    mean = e.cast(e.reshape(mean, (n, group)), e.meta[1].dtype)
    return out, mean, e.cast(e.reshape(rstd, (n, group)), e.meta[2].dtype)


def _channels(e: Emitter, v: Val, x: Val) -> Val:
    """A [C] vector laid along axis 1 of x."""
    return e.reshape(v, [x.shape[1] if i == 1 else 1 for i in range(x.ndim)])


def _scale_shift(e: Emitter, x: Val, mean: Val, invstd: Val, weight: Any, bias: Any) -> Val:
    """x * alpha + beta with alpha = invstd * weight, beta = bias - mean * alpha, each rounded once, as eager."""
    wide = opmath(x.dtype)
    alpha = invstd if weight is None else e.mul(invstd, e.cast(weight, wide))
    shift = e.emit("neg", mean)
    beta = e.mul(shift, alpha) if bias is None else e.emit("fma", shift, alpha, e.cast(bias, wide))
    y = e.emit("fma", e.cast(x, wide), _channels(e, alpha, x), _channels(e, beta, x))
    return e.cast(y, x.dtype)


@lower(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    e: Emitter,
    x: Val,
    weight: Val | None,
    bias: Val | None,
    running_mean: Val,
    running_var: Val,
    momentum: float,
    eps: float,
) -> tuple[Val, Val, Val]:
    wide = opmath(x.dtype)
    var = e.add(e.cast(running_var, wide), eps)
    invstd = e.emit("reciprocal", e.emit("sqrt", var))
    out = _scale_shift(e, x, e.cast(running_mean, wide), invstd, weight, bias)
    empty = [e.full(0, e.symbols.dims(m.shape), m.dtype) for m in e.meta[1:]]
    return out, empty[0], empty[1]


@lower(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(
    e: Emitter, x: Val, weight: Val | None, bias: Val | None, training: bool, momentum: float, eps: float
) -> tuple[Val, ...]:
    out, mean, invstd, _ = _of_this_batch(e, x, weight, bias, eps)
    return out, e.cast(mean, e.meta[1].dtype), e.cast(invstd, e.meta[2].dtype)


def _of_this_batch(e: Emitter, x: Val, weight: Val | None, bias: Val | None, eps: float) -> tuple[Val, Val, Val, Val]:
    """(out, mean, invstd, sum of squared deviations) by the statistics of x itself.

    Eager sums f32 in f64 on the CPU (of channels last, what each thread has summed in f32), rounds the sum of squares
    and its quotient, and takes the root in f64. Of a batch of few numbers the gradient is what is left where nearly
    equal ones cancel, and would show the difference; so would the derivative of what follows, where it jumps.
    """
    wide, sums = opmath(x.dtype), _sums(e, x)
    axes = [i for i in range(x.ndim) if i != 1]
    channels = (x.shape[1],)
    threads = _threads_of_rows(e, x)
    if threads:
        total = functools.partial(_sum_of_threads, e, threads=threads)
        rows, last = e.cast(x, wide), axes
    else:
        rows, last, _ = trailing(e, e.cast(x, wide), axes)
        total = functools.partial(_sum_of_channels, e, axes=last, sums=sums)
    mean = e.cast(e.div(total(rows), _count(e, x)), wide)
    centred = e.sub(rows, e.reshape(mean, [1 if i in last else d for i, d in enumerate(rows.shape)]))
    squares = e.cast(total(centred, squared=True), wide)
    squares, mean = e.reshape(squares, channels), e.reshape(mean, channels)
    var = e.cast(e.div(squares, _count(e, x)), sums)
    invstd = e.cast(e.emit("reciprocal", e.emit("sqrt", e.add(var, eps))), wide)
    return _scale_shift(e, x, mean, invstd, weight, bias), mean, invstd, squares


def _sums(e: Emitter, x: Val) -> torch.dtype:
    """The dtype in which eager sums over a channel of x."""
    return torch.float64 if x.dtype is torch.float32 and e.meta[0].device.type == "cpu" else opmath(x.dtype)


def _threads_of_rows(e: Emitter, x: Val) -> int:
    """How many threads of eager's kernel for channels last each sum some of the rows [C] of x; 0: it sums by channel,
    or nobody asks for its bits.

    The number is torch.get_num_threads() when the graph is compiled: a compiled batch norm keeps it, and after
    torch.set_num_threads its bits may be others than eager's. With several threads and a symbolic number of rows it
    is 0, as eager sums few rows in f64: here all are. Sums of one channel, whose rows lie along memory, have another
    order than eager's.
    """
    image = e.args_meta[0]
    count, threads = _count(e, x), torch.get_num_threads()
    if not e.trains_f32_on_cpu or x.dtype is not torch.float32:
        return 0
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.ndim)
    if image.is_contiguous():
        in_rows = x.ndim == 2 or x.shape[2:] == (1,) * (x.ndim - 2)
    else:
        in_rows = last is not None and image.is_contiguous(memory_format=last)
    few = count <= threads if isinstance(count, int) else threads > 1  # these are summed in f64
    return threads if in_rows and not few else 0


def _sum_of_channels(e: Emitter, x: Val, axes: list[int], sums: torch.dtype, *, squared: bool = False) -> Val:
    return e.reduce("sum", e.cast(e.mul(x, x) if squared else x, sums), axes, True)


def _sum_of_threads(e: Emitter, x: Val, threads: int, *, squared: bool = False) -> Val:
    """[C], in f64: each thread has the same number of rows, but for the last ones, and adds them in f32."""
    order = [0, *range(2, x.ndim), 1]
    rows = e.reshape(e.transpose(x, order), (_count(e, x), x.shape[1]))
    if threads == 1:
        rows = e.unsqueeze(rows, 0)
    else:
        share = -(-rows.shape[0] // threads)
        missing = share * threads - rows.shape[0]
        if missing:
            rows = e.emit("pad", rows, e.lit(0, x.dtype), low=[0, 0], high=[missing, 0])
        rows = e.reshape(rows, (threads, share, x.shape[1]))
    terms = e.mul(rows, rows) if squared else rows
    parts = e.reduce("sum", terms, [1], False, "sequential_fma" if squared else "sequential")
    return e.reduce("sum", e.cast(parts, torch.float64), [0], False)


def _count(e: Emitter, x: Val) -> Any:
    return e.numel([d for i, d in enumerate(x.shape) if i != 1])


@lower(aten._native_batch_norm_legit_functional.default)
def batch_norm_training(
    e: Emitter,
    x: Val,
    weight: Val | None,
    bias: Val | None,
    running_mean: Val,
    running_var: Val,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Val, ...]:
    if not training:
        out, mean, invstd = batch_norm_inference(e, x, weight, bias, running_mean, running_var, momentum, eps)
        return out, mean, invstd, e.cast(running_mean, e.meta[3].dtype), e.cast(running_var, e.meta[4].dtype)
    out, mean, invstd, squares = _of_this_batch(e, x, weight, bias, eps)
    count = _count(e, x)
    others = max(count - 1, 1) if isinstance(count, int) else _C.dim_max(count - 1, 1)
    return (
        out,
        e.cast(mean, e.meta[1].dtype),
        e.cast(invstd, e.meta[2].dtype),
        _running(e, running_mean, mean, momentum, e.meta[3].dtype, once=False),
        _running(e, running_var, e.div(squares, others), momentum, e.meta[4].dtype, once=True),
    )


def _running(e: Emitter, old: Val, new: Val, momentum: float, dtype: torch.dtype, *, once: bool) -> Val:
    """new * momentum + old * (1 - momentum) in the trace's dtype, which may be wider than that of the argument it is
    copied to. `once`: the first product and the sum are rounded together, as eager's loop for the variance does."""
    if not is_float(old.dtype):
        raise Declined("integer running statistics")
    share = e.full(momentum, (), new.dtype)
    kept = e.mul(e.cast(old, new.dtype), e.sub(e.full(1, (), new.dtype), share))
    mixed = e.emit("fma", new, share, kept) if once else e.add(e.mul(new, share), kept)
    return e.cast(mixed, dtype)
