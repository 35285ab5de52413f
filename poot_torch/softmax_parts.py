"""Softmax of a graph with a backward, in parts, so that the partitioner may keep what a row has one of (its maximum,
its sum) and the operand, which is often kept anyway, and compute the result again beside the backward's other work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .emitter import opmath

aten = torch.ops.aten


def _parted(x: Tensor, dim: int, half_to_float: bool, finish: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """`finish` of x - max and the sum of its exponentials. Along other axes than the last and of symbolic or empty
    shapes the operator stays whole."""
    whole = x.ndim == 0 or dim % x.ndim != x.ndim - 1 or not x.is_contiguous()
    if whole or any(not isinstance(d, int) or d == 0 for d in x.shape):
        return NotImplemented
    wide = x.to(opmath(x.dtype))
    shifted = wide - wide.amax(-1, keepdim=True)
    result = finish(shifted, shifted.exp().sum(-1, keepdim=True))
    return result if half_to_float else result.to(x.dtype)


def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _parted(x, dim, half_to_float, lambda shifted, total: shifted.exp() / total)


def _log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _parted(x, dim, half_to_float, lambda shifted, total: shifted - total.log())


OWN: dict[Any, Callable[..., Any]] = {aten._softmax.default: _softmax, aten._log_softmax.default: _log_softmax}
