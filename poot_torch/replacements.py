"""Functions that PyTorch traces into something else than what eager does.

Dynamo's graph still calls them by name, and gets the right thing in their place before AOTAutograd decomposes them:

- `dropout` that keeps every element returns its argument itself; traced, it returns a copy.
- `one_hot` refuses a class out of range; some versions trace it into comparisons that refuse none.
- `multilabel_margin_loss` ignores what a row lists behind its first -1; traced, it counts it.
- `interpolate` of bytes, bilinear and bicubic, rounds its weights in another order (`byte_resampling`).
- `polygamma_` cannot be traced at all.
- `bernoulli` with a probability has contiguous results, but is traced as `bernoulli_` is; draws into memory
  with gaps (`random_layouts`).
- Gradients of products of reflections lie otherwise (`gradient_layouts`).
- Optimizers compute with numbers (`step_counts`).
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense

from . import byte_resampling, gradient_layouts, random_layouts, step_counts

F = torch.nn.functional


def one_hot(x: Tensor, num_classes: int) -> Tensor:
    """Of int64 `x` and at least one class: [*x.shape, num_classes], with the error of a scatter out of range."""
    zeros = torch.zeros((*x.shape, num_classes), dtype=torch.int64, device=x.device)
    return zeros.scatter(-1, x.unsqueeze(-1), 1)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """For every class that a row of `target` lists, times listed, the hinges of all classes that it does not list."""
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    rows, lists = torch.atleast_2d(input), torch.atleast_2d(target)
    listed = (lists == -1).cumsum(1) == 0
    classes = torch.where(listed, lists, 0)
    each = torch.arange(rows.shape[1], device=rows.device)
    positive = ((classes.unsqueeze(2) == each) & listed.unsqueeze(2)).any(1)
    slack = 1 - rows.gather(1, classes).unsqueeze(2) + rows.unsqueeze(1)
    counts = listed.unsqueeze(2) & ~positive.unsqueeze(1)
    losses = torch.where(counts, slack.relu(), 0).sum((1, 2)) / rows.shape[1]
    if reduction == "none":
        return losses if input.ndim == 2 else losses.reshape(())
    return losses.mean() if reduction == "mean" else losses.sum()


def polygamma_(x: Tensor, n: int) -> Tensor:
    return x.copy_(torch.polygamma(n, x))


def _given(node: torch.fx.Node, *names: str) -> list[Any]:
    given = inspect.signature(node.target).bind(*node.args, **node.kwargs)  # type: ignore[arg-type]
    given.apply_defaults()
    return [given.arguments[name] for name in names]


def _kept_whole(node: torch.fx.Node) -> torch.fx.Node | None:
    """What a call of dropout returns as it is, if it drops nothing."""
    x, p, training = _given(node, "input", "p", "training")
    if not isinstance(x, torch.fx.Node) or not isinstance(p, (int, float)) or not isinstance(training, bool):
        return None
    return x if 0 <= p <= 1 and (not training or p == 0) else None


def _counts_classes(node: torch.fx.Node) -> bool:
    """Other calls are eager's to refuse."""
    x, classes = (*node.args, *node.kwargs.values()) if len(node.args) + len(node.kwargs) == 2 else (None, None)
    value = x.meta.get("example_value") if isinstance(x, torch.fx.Node) else None
    return isinstance(classes, int) and classes > 0 and isinstance(value, Tensor) and value.dtype is torch.int64


def _resamples_bytes(node: torch.fx.Node) -> bool:
    if node.target is F.upsample_bilinear:
        (x,), mode, antialias = _given(node, "input"), "bilinear", False
    else:
        x, mode, antialias = _given(node, "input", "mode", "antialias")
    value = x.meta.get("example_value") if isinstance(x, torch.fx.Node) else None
    constant = not any(isinstance(n, torch.fx.Node) for n in node.all_input_nodes if n is not x)
    return constant and byte_resampling.applies(value, mode, antialias)


def _draws_with_probability(node: torch.fx.Node) -> bool:
    named = node.target is torch.bernoulli or (node.op == "call_method" and node.target == "bernoulli")
    return named and (len(node.args) == 2 or "p" in node.kwargs) and "out" not in node.kwargs


def _fills_with_gaps(node: torch.fx.Node) -> bool:
    x = node.args[0] if node.args else None
    value = x.meta.get("example_value") if isinstance(x, torch.fx.Node) else None
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    return node.op == "call_method" and node.target in random_layouts.FILLS and not is_dense(value)


def replace(gm: torch.fx.GraphModule) -> None:
    """Changes Dynamo's graph in place."""
    changed = step_counts.widen(gm)
    for node in list(gm.graph.nodes):
        target: Any = node.target
        if target is F.dropout:
            x = _kept_whole(node)
            if x is None:
                continue
            node.replace_all_uses_with(x)
            gm.graph.erase_node(node)
        elif target is F.one_hot and _counts_classes(node):
            node.target, node.args, node.kwargs = one_hot, (*node.args, *node.kwargs.values()), {}
        elif gradient_layouts.applies(node):
            changed |= gradient_layouts.wrap_operands(node)
            continue
        elif _draws_with_probability(node):
            node.op, node.target = "call_function", random_layouts.bernoulli
        elif _fills_with_gaps(node):
            node.op, node.target = "call_function", random_layouts.fill_with_gaps
            node.args = (node.args[0], target, *node.args[1:])
        elif target is F.multilabel_margin_loss:
            node.target = multilabel_margin_loss
        elif target in (F.interpolate, F.upsample_bilinear) and _resamples_bytes(node):
            corners = {"mode": "bilinear", "align_corners": True} if target is F.upsample_bilinear else {}
            node.target, node.kwargs = byte_resampling.interpolate, {**node.kwargs, **corners}
        elif node.op == "call_method" and target == "polygamma_":
            node.op, node.target = "call_function", polygamma_
        else:
            continue
        changed = True
    if changed:
        gm.recompile()
