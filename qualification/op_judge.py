"""Whether a compiled call did what eager does.

Results must agree in structure, dtype, shape, stride and in what shares memory with what; arguments must be left
alike. Values are wrong when they lie outside op_db's tolerance and their error against float64 exceeds twice eager's
plus one unit in the last place.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poot_torch.accuracy import error_against

# Results whose values eager leaves to chance.
UNSPECIFIED = frozenset(
    (
        "empty",
        "empty_like",
        "empty_strided",
        "empty_permuted",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    )
)


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


def tolerance(info: Any, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol) of op_db's comparisons on the CPU at this dtype: the default, or what the entry overrides."""
    from torch.testing._comparison import default_tolerances
    from torch.testing._internal.common_device_type import toleranceOverride

    rtol, atol = default_tolerances(dtype)
    for info_decorator in info.decorators:
        for d in getattr(info_decorator, "decorators", [info_decorator]):
            scoped = getattr(info_decorator, "device_type", None) in (None, "cpu")
            named = getattr(info_decorator, "cls_name", None) in (None, "TestCommon")
            if isinstance(d, toleranceOverride) and dtype in d.d and scoped and named:
                rtol, atol = max(rtol, d.d[dtype].rtol), max(atol, d.d[dtype].atol)
    return rtol, atol


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


def _plain(t: torch.Tensor) -> torch.Tensor:
    t = t.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(t) if t.is_complex() else t


def _values(name: str, got: torch.Tensor, want: torch.Tensor, reference: Any, tol: tuple[float, float]) -> None:
    exact = not (want.is_floating_point() or want.is_complex())
    rtol, atol = (0.0, 0.0) if exact else tol
    try:
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
        return
    except AssertionError as e:
        message = " ".join(str(e).split())
    if not exact and isinstance(reference, torch.Tensor) and reference.shape == want.shape:
        judge = _plain(reference).double()
        if judge.shape == _plain(want).shape:
            ours, eager = error_against(judge, _plain(got)), error_against(judge, _plain(want))
            ulp = torch.finfo(want.dtype).eps * ours.scale
            if ours.max <= 2 * eager.max + ulp:
                return
            message += f" Error {ours.max:.3g}, eager's {eager.max:.3g}."
    raise Wrong(f"{name}: {message}")


def _tree(what: str, got: Any, want: Any, reference: Any, tol: Any, unspecified: bool) -> None:
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
            _values(name, g, w, r, tol(w.dtype))


def judge(got: Outcome, want: Outcome, reference: Outcome | None, info: Any) -> None:
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

    def tol(dtype: torch.dtype) -> tuple[float, float]:
        return tolerance(info, dtype)

    usable = reference is not None and reference.error is None
    loose = info.full_name in UNSPECIFIED
    _tree("result", got.results, want.results, reference.results if usable and reference else None, tol, loose)
    _tree("argument", got.args, want.args, reference.args if usable and reference else None, tol, False)
    ours, eager = sharing(got.args, got.results), sharing(want.args, want.results)
    if ours != eager:
        raise Wrong(f"memory shared by {sorted(ours)}, eager {sorted(eager)} (positions among arguments and results)")
