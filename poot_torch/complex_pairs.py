"""Complex tensors at the edges of a graph: real ones with one more axis, of size two, that holds the parts."""

from __future__ import annotations

from typing import Any

import torch

from .emitter import PART_OF, ComplexVal, Emitter, Val


class Pairs:
    """Goes between a tensor of pairs and its two parts; parts that came from a tensor give that one back."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._joined: dict[tuple[Any, Any], Val] = {}

    def split(self, pairs: Val) -> ComplexVal:
        e, last = self._emitter, pairs.ndim - 1
        shape = pairs.shape[:last]
        re, im = (e.reshape(e.slice(pairs, last, i, i + 1), shape) for i in (0, 1))
        self._joined[re.id, im.id] = pairs
        return ComplexVal(re, im)

    def join(self, value: ComplexVal) -> Val:
        key = (value.re.id, value.im.id)
        if key not in self._joined:
            e = self._emitter
            parts = [e.unsqueeze(p, p.ndim) for p in (value.re, value.im)]
            self._joined[key] = e.emit("concat", *parts, axis=value.ndim)
        return self._joined[key]


def pair_shape(shape: Any) -> tuple[Any, ...]:
    return (*shape, 2)


def pair_strides(strides: Any) -> tuple[Any, ...]:
    """In units of one part."""
    return (*(s * 2 for s in strides), 1)


def part_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which the graph holds the tensor's numbers."""
    return PART_OF.get(dtype, dtype)
