"""Bags of rows that are looked up: sums (mode 0), means (1) or maxima (2), and their dense gradients."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .emitter import opmath

aten = torch.ops.aten
OWN: dict[Any, Any] = {}
_MEAN, _MAX = 1, 2


class _Bags(NamedTuple):
    bag: Tensor  # of each row that is looked up
    kept: Tensor  # 0 for padding, else 1
    size: Tensor  # of each bag, without padding


def _kept(indices: Tensor, padding_idx: int, like: Tensor) -> Tensor:
    return torch.ones_like(like) if padding_idx < 0 else (indices != padding_idx).to(torch.int64)


def _bags(indices: Tensor, offsets: Tensor, include_last_offset: bool, padding_idx: int) -> _Bags:
    count, bags = indices.shape[0], offsets.shape[0] - int(include_last_offset)
    starts = offsets[:bags].to(torch.int64)
    marks = torch.index_add(starts.new_zeros(count + 1), 0, starts, torch.ones_like(starts))
    bag = marks.cumsum(0)[:count] - 1
    kept = _kept(indices, padding_idx, bag)
    return _Bags(bag, kept, torch.index_add(starts.new_zeros(bags), 0, bag, kept))


def _results(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, _Bags, Tensor, Tensor]:
    """(result, bags, rows in opmath, result in opmath)"""
    bags = _bags(indices, offsets, include_last_offset, padding_idx)
    rows = weight[indices].to(opmath(weight.dtype))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    whole, column = (bags.size.shape[0], weight.shape[1]), bags.kept.bool().unsqueeze(1)
    if mode == _MAX:
        rows = torch.where(column, rows, -math.inf)
        out = torch.index_reduce(rows.new_full(whole, -math.inf), 0, bags.bag, rows, "amax")
        out = torch.where((bags.size == 0).unsqueeze(1), 0.0, out)
    else:
        out = torch.index_add(rows.new_zeros(whole), 0, bags.bag, torch.where(column, rows, 0.0))
        if mode == _MEAN:
            out = out / bags.size.clamp(min=1).unsqueeze(1)
    return out.to(weight.dtype), bags, rows, out


def forward_only(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of the four results only the first is ever read."""
    out, bags, _, _ = _results(*args, **kwargs)
    return out, bags.bag, bags.size, bags.size


def forward(
    weight: Tensor, indices: Tensor, offsets: Tensor, freq: bool = False, mode: int = 0, *args: Any, **kwargs: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(result, bag of each row, size of each bag, for maxima the first row of each that has it), for the gradient."""
    out, bags, rows, wide = _results(weight, indices, offsets, freq, mode, *args, **kwargs)
    if mode != _MAX:
        return out, bags.bag, bags.size, bags.size
    count = indices.shape[0]
    place = torch.arange(count, device=indices.device).unsqueeze(1)
    place = torch.where(rows == wide[bags.bag], place, count)
    first = torch.index_reduce(place.new_full(wide.shape, count), 0, bags.bag, place, "amin")
    padded = torch.cat([indices.to(torch.int64), bags.size.new_zeros(1)])  # an empty bag's gradient is masked
    return out, bags.bag, bags.size, padded[first]


def backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bag: Tensor,
    size: Tensor,
    first: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """Eager divides by the count of another row where gradients are scaled by frequency; that is left to it."""
    if sparse or scale_grad_by_freq:
        return NotImplemented
    wide = grad.to(opmath(grad.dtype))
    base = wide.new_zeros((num_weights, grad.shape[1]))
    if mode == _MAX:
        wide = torch.where((size == 0).unsqueeze(1), 0.0, wide)
        return torch.scatter_add(base, 0, first, wide).to(grad.dtype)
    if mode == _MEAN:
        wide = wide / size.clamp(min=1).unsqueeze(1)
    each = wide[bag]
    if per_sample_weights is not None:
        each = each * per_sample_weights.unsqueeze(1)
    each = torch.where(_kept(indices, padding_idx, bag).bool().unsqueeze(1), each, 0.0)
    return torch.index_add(base, 0, indices, each).to(grad.dtype)


def per_sample_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bag: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    wide = opmath(grad.dtype)
    along = (grad[bag].to(wide) * weight[indices].to(wide)).sum(1)
    return torch.where(_kept(indices, padding_idx, bag).bool(), along, 0.0).to(grad.dtype)


OWN[aten._embedding_bag_forward_only.default] = forward_only
OWN[aten._embedding_bag.default] = forward
OWN[aten._embedding_bag_backward.default] = backward
OWN[aten._embedding_bag_per_sample_weights_backward.default] = per_sample_weights_backward
