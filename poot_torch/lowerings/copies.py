"""Casts and copies."""

from __future__ import annotations

from typing import Any

import torch

from ..emitter import Declined, Emitter, Val
from . import lower

aten = torch.ops.aten


@lower(aten._to_copy.default)
def to_copy(e: Emitter, x: Val, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Val:
    if device is not None and torch.device(device).type != e.meta.device.type:
        raise Declined("copy between devices")
    return e.cast(x, dtype or x.dtype)


@lower(torch.ops.prims.convert_element_type.default)
def convert_element_type(e: Emitter, x: Val, dtype: torch.dtype) -> Val:
    return e.cast(x, dtype)


@lower(
    aten.clone.default,
    aten.alias.default,
    aten.alias_copy.default,
    aten.detach.default,
    aten.lift_fresh_copy.default,
    aten.lift_fresh.default,
    aten.contiguous.default,
)
def identity(e: Emitter, x: Val, **_: Any) -> Val:
    return x


@lower(aten.copy.default)
def copy(e: Emitter, x: Val, src: Any, non_blocking: bool = False) -> Val:
    return e.broadcast(e.value(src, x.dtype), x.shape)
