"""Gradients that eager lays out as the operand is, and PyTorch's formula for traced tensors contiguously: those of
products of Householder reflections."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _LaidOutAlike(torch.autograd.Function):
    """x, whose gradient lies as x does, without the gaps between its elements."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.empty_like(x).copy_(grad)


def laid_out_alike(x: Tensor) -> Tensor:
    return _LaidOutAlike.apply(x)  # type: ignore[no-untyped-call]


_FUNCTIONS = (torch.ormqr, torch.orgqr, torch.linalg.householder_product)
_METHODS = ("ormqr", "orgqr")


def applies(node: torch.fx.Node) -> bool:
    return node.target in (_METHODS if node.op == "call_method" else _FUNCTIONS)


def wrap_operands(node: torch.fx.Node) -> bool:
    """Wraps the reflectors and their coefficients, the first two operands, where they have gradients."""
    changed = False
    for x in node.all_input_nodes[:2]:
        value = x.meta.get("example_value")
        if isinstance(value, Tensor) and value.requires_grad and not value.is_contiguous():
            with node.graph.inserting_before(node):
                node.replace_input_with(x, node.graph.call_function(laid_out_alike, (x,)))
            changed = True
    return changed
