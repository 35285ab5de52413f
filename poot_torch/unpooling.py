"""Max unpooling laid out as its operand is; PyTorch traces a contiguous result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

aten = torch.ops.aten


def _max_unpool2d(x: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    form = suggest_memory_format(x)
    if form is torch.contiguous_format:
        return NotImplemented
    return aten.max_unpool2d(x.contiguous(), indices.contiguous(), output_size).contiguous(memory_format=form)


OWN: dict[Any, Callable[..., Any]] = {aten.max_unpool2d.default: _max_unpool2d}
