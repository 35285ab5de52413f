"""Attention on a GPU together with what its gradient needs, forward and backward.

ATen's operators hand the state of dropout from one to the other as numbers of the host, or of a type without kernels,
on a device that is known only when they run. Those here give tensors of int64 on the device, and call ATen's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
OWN: dict[Any, Callable[..., Any]] = {}
"""Decompositions of ATen's operators into these."""
_library = torch.library.Library("poot", "DEF")


def _operator(schema: str, *tags: torch.Tag) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Defines an operator of tensors on a GPU; its fake results come from the same function on fake tensors."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        name = schema.partition("(")[0]
        _library.define(schema, tags=tags)
        _library.impl(name, fn, "CUDA")
        torch.library.register_fake(f"poot::{name}", fn, lib=_library)
        return fn

    return register


def _decomposes(overload: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        OWN[overload] = fn
        return fn

    return register


def _on_device(state: Tensor, like: Tensor, used: bool) -> Tensor:
    if not used or state.device.type == "meta":
        return torch.empty(state.shape, dtype=torch.int64, device=like.device)
    return state.view(torch.int64).to(like.device, non_blocking=True)


def _on_host(state: Tensor, used: bool) -> Tensor:
    """As ATen reads it: from the host, but while a graph is captured."""
    if not used or state.device.type == "meta" or isinstance(state, torch._subclasses.FakeTensor):
        return torch.empty((), dtype=torch.int64)
    return state if torch.cuda.is_current_stream_capturing() else state.cpu()


@_operator(
    "efficient_attention(Tensor q, Tensor k, Tensor v, Tensor? bias, float dropout_p, bool is_causal, float? scale)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    torch.Tag.nondeterministic_seeded,
)
def _efficient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout_p: float, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out, lse, seed, offset = aten._scaled_dot_product_efficient_attention(
        q, k, v, bias, True, dropout_p, is_causal, scale=scale
    )
    return out, lse, _on_device(seed, q, dropout_p > 0), _on_device(offset, q, dropout_p > 0)


@_operator(
    "efficient_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor out, Tensor lse,"
    " Tensor seed, Tensor offset, float dropout_p, bool of_bias, bool is_causal, float? scale)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
def _efficient_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    out: Tensor,
    lse: Tensor,
    seed: Tensor,
    offset: Tensor,
    dropout_p: float,
    of_bias: bool,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last result is empty unless `of_bias`."""
    state = _on_host(seed, dropout_p > 0), _on_host(offset, dropout_p > 0)
    mask = [True, True, True, of_bias]
    *grads, of = aten._scaled_dot_product_efficient_attention_backward(
        grad, q, k, v, bias, out, lse, *state, dropout_p, mask, is_causal, scale=scale
    )
    return *grads, of if of_bias else q.new_empty(0)


@_operator(
    "flash_attention(Tensor q, Tensor k, Tensor v, float dropout_p, bool is_causal, float? scale)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    torch.Tag.nondeterministic_seeded,
)
def _flash(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out, lse, _, _, _, _, state, unused, _ = aten._scaled_dot_product_flash_attention(
        q, k, v, dropout_p, is_causal, False, scale=scale
    )
    return out, lse, _on_device(state, q, dropout_p > 0), _on_device(unused, q, False)


@_operator(
    "flash_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor state,"
    " Tensor unused, float dropout_p, bool is_causal, float? scale) -> (Tensor, Tensor, Tensor)"
)
def _flash_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    state: Tensor,
    unused: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    return aten._scaled_dot_product_flash_attention_backward(
        grad, q, k, v, out, lse, None, None, q.shape[2], k.shape[2], dropout_p, is_causal,
        state.view(torch.uint64), unused.view(torch.uint64), scale=scale,
    )  # fmt: skip


@_operator(
    "cudnn_attention(Tensor q, Tensor k, Tensor v, Tensor? bias, float dropout_p, bool is_causal, float? scale)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    torch.Tag.nondeterministic_seeded,
)
def _cudnn(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout_p: float, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out, lse, _, _, _, _, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, bias, True, dropout_p, is_causal, False, scale=scale
    )
    return out, lse, _on_device(seed, q, dropout_p > 0), _on_device(offset, q, dropout_p > 0)


@_operator(
    "cudnn_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor out, Tensor lse,"
    " Tensor seed, Tensor offset, float dropout_p, bool is_causal, float? scale) -> (Tensor, Tensor, Tensor)"
)
def _cudnn_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    out: Tensor,
    lse: Tensor,
    seed: Tensor,
    offset: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """cuDNN reads the state of dropout from the device."""
    return aten._scaled_dot_product_cudnn_attention_backward(
        grad, q, k, v, out, lse, seed, offset, bias, None, None, q.shape[2], k.shape[2], dropout_p, is_causal,
        scale=scale,
    )  # fmt: skip


@_decomposes(aten._scaled_dot_product_efficient_attention.default)
def _decompose_efficient(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    if q.device.type != "cuda" or not compute_log_sumexp:
        return NotImplemented
    return torch.ops.poot.efficient_attention(q, k, v, bias, dropout_p, is_causal, scale)


@_decomposes(aten._scaled_dot_product_efficient_attention_backward.default)
def _decompose_efficient_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    out: Tensor,
    lse: Tensor,
    seed: Tensor,
    offset: Tensor,
    dropout_p: float,
    grad_input_mask: list[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    if q.device.type != "cuda":
        return NotImplemented
    of_bias = bias is not None and grad_input_mask[3]
    *grads, of = torch.ops.poot.efficient_attention_backward(
        grad, q, k, v, bias, out, lse, seed, offset, dropout_p, of_bias, is_causal, scale
    )
    return *grads, of if of_bias else None


@_decomposes(aten._scaled_dot_product_flash_attention.default)
def _decompose_flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    if q.device.type != "cuda" or return_debug_mask:
        return NotImplemented
    out, lse, state, unused = torch.ops.poot.flash_attention(q, k, v, dropout_p, is_causal, scale)
    return out, lse, None, None, q.shape[2], k.shape[2], state, unused, q.new_empty(0)


@_decomposes(aten._scaled_dot_product_flash_attention_backward.default)
def _decompose_flash_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: Any,
    max_k: Any,
    dropout_p: float,
    is_causal: bool,
    state: Tensor,
    unused: Tensor,
    *,
    scale: float | None = None,
) -> Any:
    if q.device.type != "cuda":
        return NotImplemented
    return torch.ops.poot.flash_attention_backward(grad, q, k, v, out, lse, state, unused, dropout_p, is_causal, scale)


@_decomposes(aten._scaled_dot_product_cudnn_attention.default)
def _decompose_cudnn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    if q.device.type != "cuda" or not compute_log_sumexp or return_debug_mask:
        return NotImplemented
    out, lse, seed, offset = torch.ops.poot.cudnn_attention(q, k, v, bias, dropout_p, is_causal, scale)
    return out, lse, None, None, q.shape[2], k.shape[2], seed, offset, None


@_decomposes(aten._scaled_dot_product_cudnn_attention_backward.default)
def _decompose_cudnn_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    seed: Tensor,
    offset: Tensor,
    bias: Tensor | None,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: Any,
    max_k: Any,
    dropout_p: float,
    is_causal: bool,
    *,
    scale: float | None = None,
) -> Any:
    if q.device.type != "cuda" or cum_seq_q is not None:
        return NotImplemented
    return torch.ops.poot.cudnn_attention_backward(
        grad, q, k, v, bias, out, lse, seed, offset, dropout_p, is_causal, scale
    )
