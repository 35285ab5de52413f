"""Layouts of what a forward graph keeps for its backward, which nobody else sees.

Tensor cores' kernels load 16 bytes at once: a product whose matrices have rows of another length is several times
slower. Such rows are kept apart, each at a multiple of 16 bytes. AOTAutograd hears of it by
`TracingContext.output_strides` (None: as traced) and gives the backward compiler examples that lie so, at
`tensors_saved_for_backwards_slice`. Where a hook on saved tensors lays them otherwise, the call copies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .emitter import REDUCED
from .graph_facts import view_base

DEVICES = {"cuda"}  # types, whose libraries profit
ALIGNMENT = 16  # bytes
LEAST_ROW = 512  # elements, below which the gaps are a notable part


def rows_apart(val: Any) -> tuple[int, ...] | None:
    """Strides of a contiguous tensor of half precision on a GPU with rows at multiples of ALIGNMENT, where they do not
    begin there anyway."""
    if not isinstance(val, torch.Tensor) or val.device.type not in DEVICES or val.dtype not in REDUCED:
        return None
    if val.ndim < 2 or not all(isinstance(s, int) for s in val.shape) or not val.is_contiguous():
        return None
    columns, unit = val.shape[-1], ALIGNMENT // val.dtype.itemsize
    if columns < LEAST_ROW or columns % unit == 0 or val.numel() == 0:
        return None
    strides = [1]
    for size in (-(-columns // unit) * unit, *reversed(val.shape[1:-1])):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


def strides_of_saved(gm: torch.fx.GraphModule) -> dict[torch.fx.Node, tuple[int, ...]]:
    """Strides of results of a forward graph that only the backward reads, and that share their memory with no other."""
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    if context is None or meta is None or context.output_strides is None:
        return {}
    (output,) = gm.graph.find_nodes(op="output")
    results: Sequence[Any] = output.args[0]
    saved = results[meta.tensors_saved_for_backwards_slice]
    bases = [view_base(r) for r in results if isinstance(r, torch.fx.Node)]
    found = {}
    for node in saved:
        strides = rows_apart(node.meta.get("val")) if isinstance(node, torch.fx.Node) else None
        base = view_base(node) if strides else None
        if strides and base is not None and base.op == "call_function" and bases.count(base) == 1:
            found[node] = strides
    return found


def report_strides(gm: torch.fx.GraphModule, layouts: dict[torch.fx.Node, tuple[int, ...]]) -> None:
    """Tells AOTAutograd in which strides the compiled graph gives its results."""
    context = torch._guards.TracingContext.try_get()
    if not layouts or context is None or context.output_strides is None:
        return
    (output,) = gm.graph.find_nodes(op="output")
    context.output_strides.extend(layouts.get(r) for r in output.args[0])


def restride_placeholders(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> None:
    """The arguments of a backward graph lie as its examples do."""
    for node, example in zip(gm.graph.find_nodes(op="placeholder"), examples, strict=True):
        strides = rows_apart(node.meta.get("val"))
        if strides and isinstance(example, torch.Tensor) and example.stride() == strides:
            val = node.meta["val"]
            with val.fake_mode:
                node.meta["val"] = val.as_strided(val.shape, strides)
