"""Gradients of what a call gave, under one seed for every draw of a case."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from qualification.op_judge import Outcome
from qualification.rules import plain

SEED = 20260701


def tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def detached(tree: Any) -> Any:
    return pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, tree)


def cotangents(outs: list[torch.Tensor]) -> list[torch.Tensor]:
    torch.manual_seed(SEED + 1)
    wide = [torch.randn(t.shape, dtype=torch.complex128 if t.is_complex() else torch.float64) for t in outs]
    return [c.to(t.dtype) for c, t in zip(wide, outs, strict=True)]


def gradients(outputs: Any, args: Any) -> Any:
    """Of every tensor of `args` that wants one, against cotangents drawn from one seed."""
    outs = [t for t in tensors(outputs) if t.requires_grad]
    wanted = [t for t in tensors(args) if t.requires_grad]
    if not outs or not wanted:
        return []
    return torch.autograd.grad(outs, wanted, cotangents(outs), allow_unused=True)


def equal(a: Outcome, b: Outcome) -> bool:
    """Whether two calls gave the same numbers; what is not strided is not looked at."""

    def same(s: torch.Tensor, t: torch.Tensor) -> bool:
        if s.layout is not torch.strided or s.shape != t.shape:
            return True
        return torch.equal(plain(s).nan_to_num(), plain(t).nan_to_num())

    x, y = tensors(a.results), tensors(b.results)
    return len(x) == len(y) and all(map(same, x, y))
