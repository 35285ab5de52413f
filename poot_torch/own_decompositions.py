"""Decompositions that PyTorch's table lacks, or whose like there loses precision: gradients of resampling and padding,
axis by axis, of batch norms, distances between rows, losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .emitter import opmath
from .row_operators import on_rows, row_sum

aten = torch.ops.aten
OWN: dict[Any, Callable[..., Any]] = {}


def _own(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        OWN.update(dict.fromkeys(overloads, fn))
        return fn

    return register


# ---- resampling: each element of the result is a weighted sum of some of the operand's along each axis

Tap = tuple[Tensor, Tensor | None]  # place in the operand, for each of the result; weight, or None for one


def _spread(grad: Tensor, axis: int, size: int, taps: Sequence[Tap]) -> Tensor:
    """Adds each element along the axis to the places that it was made from."""
    shape = [size if i == axis else n for i, n in enumerate(grad.shape)]
    column = [-1 if i == axis else 1 for i in range(grad.ndim)]
    total = grad.new_zeros(shape)
    for place, weight in taps:
        total = torch.index_add(total, axis, place, grad if weight is None else grad * weight.reshape(column))
    return total


def _steps(length: int, like: Tensor) -> Tensor:
    return torch.arange(length, device=like.device).to(like.dtype)


def _source(size: int, length: int, align: bool, scale: float | None, like: Tensor) -> Tensor:
    if align:
        return _steps(length, like) * ((size - 1.0) / (length - 1.0) if length > 1 else 0.0)
    ratio = 1.0 / scale if scale is not None and scale > 0 else size / length
    return (_steps(length, like) + 0.5) * ratio - 0.5


def _nearest(exact: bool) -> Callable[..., list[Tap]]:
    def taps(size: int, length: int, scale: float | None, like: Tensor) -> list[Tap]:
        ratio = 1.0 / scale if scale is not None and scale > 0 else size / length
        steps = torch.arange(length, dtype=torch.float32, device=like.device)
        place = ((steps + (0.5 if exact else 0.0)) * ratio).to(torch.int64)
        return [(place.clamp(max=size - 1), None)]

    return taps


def _linear(size: int, length: int, align: bool, scale: float | None, like: Tensor) -> list[Tap]:
    at = _source(size, length, align, scale, like).clamp(min=0.0)
    low = at.to(torch.int64).clamp(max=size - 1)
    far = (at - low).clamp(0.0, 1.0)
    return [(low, 1.0 - far), ((low + 1).clamp(max=size - 1), far)]


def _cubic(size: int, length: int, align: bool, scale: float | None, like: Tensor) -> list[Tap]:
    at = _source(size, length, align, scale, like)
    low = at.floor()
    t = at - low
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    whole = low.to(torch.int64)
    return [((whole + i - 1).clamp(0, size - 1), w) for i, w in enumerate(weights)]


def _resampled(grad: Tensor, input_size: Sequence[int], taps: Callable[..., list[Tap]], given: Sequence[Any]) -> Tensor:
    """`given`: what `taps` is told of each axis beside its sizes."""
    wide = grad.to(opmath(grad.dtype))
    for i, (size, more) in enumerate(zip(input_size[2:], given, strict=True)):
        wide = _spread(wide, 2 + i, size, taps(size, grad.shape[2 + i], *more, wide))
    return wide.to(grad.dtype)


def _nearest_backward(taps: Callable[..., list[Tap]]) -> Callable[..., Tensor]:
    def backward(grad: Tensor, output_size: Sequence[int], input_size: Any, *scales: Any) -> Tensor:
        return _resampled(grad, input_size, taps, [(s,) for s in scales or (None,) * len(output_size)])

    return backward


def _weighted_backward(taps: Callable[..., list[Tap]]) -> Callable[..., Tensor]:
    def backward(grad: Tensor, output_size: Sequence[int], input_size: Any, align: bool, *scales: Any) -> Tensor:
        return _resampled(grad, input_size, taps, [(align, s) for s in scales or (None,) * len(output_size)])

    return backward


for _n in (1, 2, 3):
    _own(getattr(aten, f"upsample_nearest{_n}d_backward").default)(_nearest_backward(_nearest(False)))
    _own(getattr(aten, f"_upsample_nearest_exact{_n}d_backward").default)(_nearest_backward(_nearest(True)))
for _name in ("linear1d", "bilinear2d", "trilinear3d"):
    _own(getattr(aten, f"upsample_{_name}_backward").default)(_weighted_backward(_linear))
_own(aten.upsample_bicubic2d_backward.default)(_weighted_backward(_cubic))


@_own(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def replication_pad_backward(grad: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    total = grad
    for i in range(len(padding) // 2):
        axis = x.ndim - 1 - i
        size = x.shape[axis]
        place = (torch.arange(grad.shape[axis], device=grad.device) - padding[2 * i]).clamp(0, size - 1)
        total = _spread(total, axis, size, [(place, None)])
    return total


# ---- norms


@_own(aten._softmax_backward_data.default)
def softmax_backward(grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """Rounded as eager's kernels of the device do: PyTorch's decomposition has the order of a GPU's."""
    wide, result = grad.to(opmath(grad.dtype)), output.to(opmath(output.dtype))
    product = wide * result
    total = row_sum(product, "vector") if on_rows(grad, dim) else product.sum(dim, keepdim=True)
    of_x = (wide - total) * result if grad.device.type == "cpu" else wide * result - result * total
    return of_x.to(input_dtype).contiguous()


@_own(aten._log_softmax_backward_data.default)
def log_softmax_backward(grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """A row's product and difference are rounded once on the CPU."""
    wide, result = grad.to(opmath(grad.dtype)), output.to(opmath(output.dtype))
    total = row_sum(wide, "vector") if on_rows(grad, dim) else wide.sum(dim, keepdim=True)
    on_cpu = grad.device.type == "cpu" and wide.dtype is torch.float32
    of_x = torch.addcmul(wide, result.exp(), total, value=-1) if on_cpu else wide - result.exp() * total
    return of_x.to(input_dtype).contiguous()


def layer_norm_backward(*args: Any) -> tuple[Tensor | None, ...]:
    """The gradient of x is contiguous, as eager's, whatever that of the result is."""
    of_x, *others = torch._decomp.decompositions.native_layer_norm_backward(*args)
    return (None if of_x is None else of_x.contiguous(), *others)


@_own(aten.native_layer_norm_backward.default)
def _layer_norm_backward(grad: Tensor, x: Tensor, *args: Any) -> tuple[Tensor | None, ...]:
    """Stays whole where the library runs it, of contiguous operands."""
    if x.device.type != "cpu" or x.dtype is not torch.float32:
        return layer_norm_backward(grad, x, *args)
    if grad.is_contiguous() and x.is_contiguous():
        return NotImplemented
    return aten.native_layer_norm_backward(grad.contiguous(), x.contiguous(), *args)


@_own(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Stays whole in f32 on the CPU: with few numbers a channel the terms of the gradient of x cancel, and only eager's
    order of summation has its bits."""
    if x.device.type == "cpu" and x.dtype is torch.float32:
        return NotImplemented
    wide = opmath(x.dtype)
    axes = [i for i in range(x.ndim) if i != 1]
    column = [-1 if i == 1 else 1 for i in range(x.ndim)]
    count = math.prod(x.shape[i] for i in axes)
    grad_wide, x_wide = grad.to(wide), x.to(wide)
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, invstd = save_mean.to(wide), save_invstd.to(wide)
    else:
        assert running_mean is not None and running_var is not None
        mean, invstd = running_mean.to(wide), (running_var.to(wide) + eps).sqrt().reciprocal()
    centred = x_wide - mean.reshape(column)
    total = grad_wide.sum(axes)
    along = (grad_wide * centred).sum(axes)
    of_x = None
    if output_mask[0]:
        scale = invstd if weight is None else invstd * weight.to(wide)
        if train:
            slope = (along * invstd * invstd / count).reshape(column)
            grad_wide = grad_wide - (total / count).reshape(column) - centred * slope
        of_x = (grad_wide * scale.reshape(column)).to(x.dtype)
    dtype = x.dtype if weight is None else weight.dtype
    of_weight = (along * invstd).to(dtype) if output_mask[1] else None
    return of_x, of_weight, total.to(dtype) if output_mask[2] else None


# ---- distances


@_own(aten._pdist_forward.default)
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Distances of all pairs of rows, each pair once."""
    count = x.shape[0]
    if count <= 1:
        return x.new_zeros((0,))
    first, second = torch.triu_indices(count, count, 1, device=x.device).unbind(0)
    return torch.linalg.vector_norm(x[first] - x[second], p, dim=1)


def _slope(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """Of the p-norm of a difference, for each of its elements."""
    if p == 0.0:
        return torch.zeros_like(difference)
    sign = difference.sign()
    if p == 1.0:
        return sign
    if p == math.inf:
        return torch.where(difference.abs() == distance, sign, 0.0)
    if p == 2.0:
        value = difference / distance
    else:
        size = difference.abs()
        value = sign * size.pow(p - 1) / distance.pow(p - 1)
        if p < 1.0:
            value = torch.where(difference == 0.0, 0.0, value)
    return torch.where(distance == 0.0, 0.0, value)


@_own(aten._pdist_backward.default)
def pdist_backward(grad: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    count = x.shape[0]
    if count <= 1:
        return torch.zeros_like(x)
    first, second = torch.triu_indices(count, count, 1, device=x.device).unbind(0)
    each = _slope(x[first] - x[second], distance.unsqueeze(1), p) * grad.unsqueeze(1)
    return torch.index_add(torch.index_add(torch.zeros_like(x), 0, first, each), 0, second, each, alpha=-1)


@_own(aten._cdist_backward.default)
def cdist_backward(grad: Tensor, a: Tensor, b: Tensor, p: float, distance: Tensor) -> Tensor:
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    each = _slope(difference, distance.unsqueeze(-1), p) * grad.unsqueeze(-1)
    return each.sum(-2)


# ---- activations and losses


def _complex_only(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Other types have a lowering."""

    def decompose(grad: Tensor, y: Tensor) -> Tensor:
        return getattr(torch._decomp.decompositions, name)(grad, y) if y.is_complex() else NotImplemented

    return decompose


for _name in ("tanh_backward", "sigmoid_backward"):
    _own(getattr(aten, _name).default)(_complex_only(_name))


@_own(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def shrink_backward(grad: Tensor, x: Tensor, lambd: float) -> Tensor:
    return torch.where((x >= -lambd) & (x <= lambd), 0.0, grad)


@_own(aten.multi_margin_loss_backward.default)
def multi_margin_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, p: int, margin: float, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    rows = x if x.ndim == 2 else x.unsqueeze(0)
    classes = target.reshape(-1, 1)
    slack = margin - rows.gather(1, classes) + rows
    slope = torch.ones_like(slack) if p == 1 else 2 * slack
    scale = 1.0 / rows.shape[1]
    if reduction == 1:
        scale /= rows.shape[0]
    if weight is not None:
        slope = slope * weight[classes]
    own = torch.arange(rows.shape[1], device=x.device) == classes
    slope = torch.where((slack > 0) & ~own, slope * scale, 0.0)
    slope = torch.where(own, -slope.sum(1, keepdim=True), slope)
    outer = grad.reshape(-1, 1) if reduction == 0 else grad
    return (slope * outer).reshape(x.shape)


@_own(aten._weight_norm_interface_backward.default)
def weight_norm_backward(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    axes = [i for i in range(v.ndim) if i != dim % v.ndim]
    norms = norms.to(v.dtype)
    along = (grad * v).sum(axes, keepdim=True)
    return g / norms * (grad - v * (along / (norms * norms))), along / norms


@_own(aten.linalg_pinv.atol_rtol_tensor)
def linalg_pinv(
    x: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """By singular values, or eigenvalues, as eager."""
    if x.numel() == 0:
        return x.new_empty([*x.shape[:-2], x.shape[-1], x.shape[-2]])
    real = torch.empty((), dtype=x.dtype, device="meta").abs().dtype
    if atol is None:
        atol = torch.zeros((), dtype=real, device=x.device)
    if rtol is None:
        rtol = torch.where(atol > 0, 0.0, torch.finfo(real).eps * max(x.shape[-2:])).to(real)
    values, (left, right) = _spectrum(x, hermitian)
    size = values.abs()
    least = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * size.amax(-1, keepdim=True))
    inverse = torch.where(size > least, values.reciprocal(), 0.0).to(x.dtype)
    return (right * inverse.unsqueeze(-2)) @ left.mH


def _spectrum(x: Tensor, hermitian: bool) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Values on the diagonal between the two factors of x, the second of these as its conjugate transpose."""
    if hermitian:
        values, vectors = torch.linalg.eigh(x)
        return values, (vectors, vectors)
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    return values, (left, right.mH)


# ---- lookups


@_own(aten.embedding_renorm.default)
def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that are looked up and longer than max_norm are scaled to it."""
    norms = torch.linalg.vector_norm(weight, norm_type, dim=1, keepdim=True).double()
    used = weight.new_zeros(weight.shape[0], dtype=torch.bool).index_fill(0, indices.reshape(-1), True)
    scales = (max_norm / (norms + 1e-7)).to(opmath(weight.dtype))
    return torch.where(used.unsqueeze(1) & (norms > max_norm), (weight * scales).to(weight.dtype), weight)


@_own(aten.masked_scatter_backward.default)
def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """The gradients of masked places, one after the other; zeros behind them."""
    count = math.prod(sizes)
    hit = mask.expand(grad.shape).reshape(-1)
    place = torch.where(hit, hit.cumsum(0) - 1, count)
    rows = torch.scatter(grad.new_zeros(count + 1), 0, place, grad.reshape(-1))
    return rows[:count].reshape(sizes)
