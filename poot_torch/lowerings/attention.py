"""Scaled dot product attention: expanded to the primitive chain within a provenance group, from
which recognition restores one attention equation and no score matrix is made.

Probabilities stay in f32, as in eager's fused kernel; a row whose scores are all -inf gives zeros.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import attention_training  # noqa: F401  defines operators that are lowered here
from ..emitter import Declined, Emitter, Val, is_float
from . import FIRST_RESULT, lower

aten = torch.ops.aten


def _heads(e: Emitter, x: Val, heads: Any) -> Val:
    """Repeats each of Hk heads for its group of query heads."""
    b, own, s, d = x.shape
    if own == heads:
        return x
    groups = heads // own
    wide = e.broadcast(e.reshape(x, (b, own, 1, s, d)), (b, own, groups, s, d))
    return e.reshape(wide, (b, heads, s, d))


def _masked(e: Emitter, scores: Val, mask: Val | None, causal: bool) -> Val:
    if causal:
        rows, cols = scores.shape[-2:]
        positions = e.iota(cols)  # one ramp where both are equal: CSE would take one out of the group
        queries = positions if rows == cols else e.iota(rows)
        allowed = e.emit("le", positions, e.reshape(queries, (rows, 1)))
        scores = e.where(allowed, scores, -math.inf, scores.dtype)
    if mask is None:
        return scores
    if mask.dtype is torch.bool:
        return e.where(mask, scores, -math.inf, scores.dtype)
    return e.add(scores, e.cast(mask, scores.dtype))


def expand(e: Emitter, q: Val, k: Val, v: Val, mask: Val | None, causal: bool, scale: float | Val) -> tuple[Val, Val]:
    """(out, log-sum-exp [B, H, L] in f32) of q [B, H, L, D] with k and v [B, Hk, S, D]."""
    wide = torch.float32
    heads = q.shape[1]
    keys = e.transpose(_heads(e, e.cast(k, wide), heads), (0, 1, 3, 2))
    values = _heads(e, e.cast(v, wide), heads)
    scores = e.mul(e.emit("matmul", e.cast(q, wide), keys), scale)
    scores = _masked(e, scores, mask, causal)
    top = e.reduce("max", scores, [3], True)
    top = e.where(e.compare("eq", top, -math.inf), 0.0, top, wide)
    powers = e.emit("exp", e.sub(scores, top))
    total = e.reduce("sum", powers, [3], True)
    divisor = e.where(e.compare("eq", total, 0.0), 1.0, total, wide)
    out = e.emit("matmul", e.div(powers, divisor), values)
    lse = e.add(e.emit("log", total), top)
    return e.cast(out, q.dtype), e.reshape(lse, q.shape[:3])


def attention(
    e: Emitter, q: Val, k: Val, v: Val, mask: Val | None, dropout_p: float, is_causal: bool, scale: float | None
) -> tuple[Val, Val]:
    """The expansion within its group: (out, log-sum-exp)."""
    if dropout_p:
        raise Declined("attention with dropout")
    if not is_float(q.dtype) or q.ndim != 4:
        raise Declined("attention that is not 4-d")
    factor: float | Val
    if scale is None and not isinstance(q.shape[-1], int):  # known when the graph runs
        root = e.emit("sqrt", e.value(q.shape[-1], torch.float64))
        factor = e.cast(e.emit("div", e.value(1.0, torch.float64), root), torch.float32)
        known = {}
    else:
        factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
        known = {"scale": factor}
    operands = [q.id, k.id, v.id] + ([] if mask is None else [mask.id])
    e.builder.begin_group("attention", operands, **known, causal=bool(is_causal))
    out, lse = expand(e, q, k, v, mask, is_causal, factor)
    e.builder.end_group([out.id, lse.id])
    return out, lse


@lower(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention_for_cpu(
    e: Emitter,
    q: Val,
    k: Val,
    v: Val,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Val | None = None,
    scale: float | None = None,
) -> tuple[Val, Val]:
    return attention(e, q, k, v, attn_mask, dropout_p, is_causal, scale)


@lower(aten._scaled_dot_product_flash_attention.default)
def flash_attention(
    e: Emitter,
    q: Val,
    k: Val,
    v: Val,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Val]:
    return attention(e, q, k, v, None, dropout_p, is_causal, scale)[:1]


@lower(torch.ops.poot.flash_attention.default)
def flash_attention_with_state(
    e: Emitter, q: Val, k: Val, v: Val, dropout_p: float, is_causal: bool, scale: float | None
) -> tuple[Val]:
    return attention(e, q, k, v, None, dropout_p, is_causal, scale)[:1]


@lower(torch.ops.poot.efficient_attention.default, torch.ops.poot.cudnn_attention.default)
def biased_attention_with_state(
    e: Emitter,
    q: Val,
    k: Val,
    v: Val,
    bias: Val | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Val]:
    return attention(e, q, k, v, bias, dropout_p, is_causal, scale)[:1]


@lower(
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
)
def biased_attention(
    e: Emitter,
    q: Val,
    k: Val,
    v: Val,
    attn_bias: Val | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *_: Any,
    scale: float | None = None,
    **__: Any,
) -> tuple[Val]:
    return attention(e, q, k, v, attn_bias, dropout_p, is_causal, scale)[:1]


FIRST_RESULT.update(
    (
        torch.ops.poot.flash_attention.default,
        torch.ops.poot.efficient_attention.default,
        torch.ops.poot.cudnn_attention.default,
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_cudnn_attention.default,
    )
)
