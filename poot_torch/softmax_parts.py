"""Softmax of a graph with a backward, in parts, so that the partitioner may keep what a row has one of (its maximum,
its sum) and the operand, which is often kept anyway, and compute the result again beside the backward's other work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .emitter import opmath
from .row_operators import on_rows, row_log, row_sum

aten = torch.ops.aten


def _parted(x: Tensor, dim: int, half_to_float: bool, finish: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """`finish` of x - max and the sum of its exponentials. Along other axes than the last and of symbolic or empty
    shapes the operator stays whole."""
    whole = x.ndim == 0 or dim % x.ndim != x.ndim - 1 or not x.is_contiguous()
    if whole or any(not isinstance(d, int) or d == 0 for d in x.shape):
        return NotImplemented
    wide = x.to(opmath(x.dtype))
    shifted = wide - wide.amax(-1, keepdim=True)
    powers = shifted.exp()
    result = finish(shifted, row_sum(powers, "vector") if on_rows(x, dim) else powers.sum(-1, keepdim=True))
    return result if half_to_float else result.to(x.dtype)


def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    def finish(shifted: Tensor, total: Tensor) -> Tensor:
        return shifted.exp() * total.reciprocal() if x.device.type == "cpu" else shifted.exp() / total

    return _parted(x, dim, half_to_float, finish)


def _log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    def finish(shifted: Tensor, total: Tensor) -> Tensor:
        return shifted - (row_log(total) if x.device.type == "cpu" else total.log())

    return _parted(x, dim, half_to_float, finish)


OWN: dict[Any, Callable[..., Any]] = {aten._softmax.default: _softmax, aten._log_softmax.default: _log_softmax}
