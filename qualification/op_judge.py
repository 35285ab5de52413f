"""Whether a compiled call did what eager does.

Results must agree in structure, dtype, shape, stride and in what shares memory with what; arguments must be left
alike. A rule (`qualification.rules`) judges the values.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from qualification.rules import Rule


class Wrong(Exception):
    """The compiled result is not eager's; the message says in what."""


@dataclasses.dataclass
class Outcome:
    """What a call gave: results and the arguments as it left them, or the exception it raised."""

    args: Any = None
    results: Any = None
    error: BaseException | None = None


_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


def copied(tree: Any) -> Any:
    """A deep copy that keeps strides, and which tensors share memory."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        if t.layout is not torch.strided:
            return t.detach().clone().requires_grad_(t.requires_grad)
        if t.is_conj():
            return copy(t.conj()).conj()
        source = t.untyped_storage()
        if source.data_ptr() not in storages:
            storages[source.data_ptr()] = source.clone()
        new = torch.empty(0, dtype=t.dtype)
        new.set_(storages[source.data_ptr()], t.storage_offset(), t.shape, t.stride())
        return new.requires_grad_(t.requires_grad)

    return pytree.tree_map(copy, tree)


def widened(tree: Any) -> Any:
    """Floating and complex tensors, and dtypes among the arguments, at double precision."""

    def wide(t: Any) -> Any:
        if isinstance(t, torch.dtype):
            return _WIDER.get(t, t)
        if isinstance(t, torch.Tensor) and t.dtype in _WIDER:
            return t.detach().to(_WIDER[t.dtype]).requires_grad_(t.requires_grad)
        return t

    return pytree.tree_map(wide, tree)


def sharing(args: Any, results: Any) -> set[tuple[int, int]]:
    """Pairs of positions whose tensors share memory: result with argument, result with result."""
    tensors = [t for t in pytree.tree_leaves((args, results)) if isinstance(t, torch.Tensor)]
    first = sum(isinstance(t, torch.Tensor) for t in pytree.tree_leaves(args))

    def address(t: torch.Tensor) -> int:
        return t.untyped_storage().data_ptr() if t.layout is torch.strided else 0

    spots = [address(t) for t in tensors]
    return {(i, j) for j in range(first, len(spots)) for i in range(j) if spots[i] and spots[i] == spots[j]}


def _layout(name: str, got: torch.Tensor, want: torch.Tensor) -> None:
    for what in ("dtype", "shape", "layout", "device"):
        if getattr(got, what) != getattr(want, what):
            raise Wrong(f"{name}: {what} {getattr(got, what)}, eager {getattr(want, what)}")
    if want.layout is not torch.strided or want.numel() == 0:
        return
    pairs = [(g, w) for g, w, n in zip(got.stride(), want.stride(), want.shape, strict=True) if n > 1]
    if any(g != w for g, w in pairs):
        raise Wrong(f"{name}: stride {got.stride()}, eager {want.stride()} of shape {tuple(want.shape)}")


def _tree(what: str, got: Any, want: Any, reference: Any, rule: Rule, unspecified: bool) -> None:
    got_leaves, spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    if spec != want_spec:
        raise Wrong(f"{what}: structure {spec}, eager {want_spec}")
    references = pytree.tree_leaves(reference)
    if len(references) != len(want_leaves):
        references = [None] * len(want_leaves)
    for i, (g, w, r) in enumerate(zip(got_leaves, want_leaves, references, strict=True)):
        name = f"{what} {i}"
        if not isinstance(w, torch.Tensor):
            if type(g) is not type(w) or not (g == w or (g != g and w != w)):
                raise Wrong(f"{name}: {g!r}, eager {w!r}")
            continue
        if not isinstance(g, torch.Tensor):
            raise Wrong(f"{name}: {type(g).__name__}, eager a tensor")
        _layout(name, g, w)
        if not unspecified:
            usable = isinstance(r, torch.Tensor) and r.shape == w.shape
            rule.values(name, g, w, r if usable else None)


def judge(got: Outcome, want: Outcome, reference: Outcome | None, rule: Rule) -> None:
    """Raises Wrong. `reference` is the call at double precision, where there is a meaningful one."""
    if want.error is not None:
        if got.error is None:
            raise Wrong(f"no exception, eager {type(want.error).__name__}: {want.error}")
        from_dynamo = type(got.error).__module__ == "torch._dynamo.exc"
        if not isinstance(got.error, type(want.error)) and not from_dynamo:
            raise Wrong(f"{type(got.error).__name__}, eager {type(want.error).__name__}: {want.error}")
        return
    if got.error is not None:
        raise Wrong(f"{type(got.error).__name__}: {' '.join(str(got.error).split())[:300]}")
    wide = reference if reference is not None and reference.error is None else Outcome()
    _tree("result", got.results, want.results, wide.results, rule, rule.unspecified)
    _tree("argument", got.args, want.args, wide.args, rule, False)
    ours, eager = sharing(got.args, got.results), sharing(want.args, want.results)
    if ours != eager:
        raise Wrong(f"memory shared by {sorted(ours)}, eager {sorted(eager)} (positions among arguments and results)")
    rule.finish()
