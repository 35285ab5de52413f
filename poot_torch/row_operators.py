"""Operators for decompositions where ATen has none that says how eager's vectors of f32 on a CPU round a row."""

from __future__ import annotations

import torch
from torch import Tensor

_library = torch.library.Library("poot", "FRAGMENT")
_library.define("row_sum(Tensor x, str order) -> Tensor")
_library.define("row_log(Tensor x) -> Tensor")
_library.impl("row_sum", lambda x, order: x.sum(-1, keepdim=True), "CompositeExplicitAutograd")
_library.impl("row_log", lambda x: x.log(), "CompositeExplicitAutograd")


def on_rows(x: Tensor, dim: int) -> bool:
    """Whether eager's kernels of softmax take rows of x along `dim` in vectors of f32 on a CPU."""
    return x.device.type == "cpu" and x.dtype is torch.float32 and x.ndim > 0 and dim % x.ndim == x.ndim - 1


def row_sum(x: Tensor, order: str) -> Tensor:
    """Sum along the last axis, which becomes 1; `order`: of csrc/ir/reduce_order.def."""
    return torch.ops.poot.row_sum(x, order)


def row_log(x: Tensor) -> Tensor:
    return torch.ops.poot.row_log(x)
