"""Compares a function three ways: eager, PyTorch's own AOT pipeline run eagerly, and poot.

A wrong result is often in the graph that AOTAutograd made while poot ran it faithfully, so both are
held against eager: values (by their error against float64), dtypes, shapes, strides, which results
share memory with which arguments or results, and what became of mutated arguments.
"""

import torch
from torch._dynamo.utils import counters
from torch.utils import _pytree as pytree

from poot_torch.accuracy import error_against
from poot_torch.backend import poot

PEER = "aot_eager_decomp_partition"


def copied(tree):
    """A deep copy that keeps strides, offset and overlaps within a tensor."""

    def copy(t):
        if not isinstance(t, torch.Tensor):
            return t
        storage = t.detach().untyped_storage().clone()
        new = torch.empty(0, dtype=t.dtype, device=t.device).set_(storage, t.storage_offset(), t.shape, t.stride())
        return new.requires_grad_(t.requires_grad)

    return pytree.tree_map(copy, tree)


def widened(tree):
    """Floating tensors as float64."""

    def wide(t):
        if isinstance(t, torch.Tensor) and t.is_floating_point():
            return t.detach().double().requires_grad_(t.requires_grad)
        return t

    return pytree.tree_map(wide, tree)


def sharing(args, results):
    """Pairs of positions whose tensors share memory: result with argument, result with result."""
    tensors = [t for t in pytree.tree_leaves((args, results)) if isinstance(t, torch.Tensor)]
    first = len([t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)])
    pairs = set()
    for j in range(first, len(tensors)):
        for i in range(j):
            a, b = tensors[i].untyped_storage(), tensors[j].untyped_storage()
            if a.nbytes() and a.data_ptr() == b.data_ptr():
                pairs.add((i, j))
    return pairs


def same(name, got, want, reference):
    """One tensor: type, layout, and an error no worse than eager's (or equal bits)."""
    assert isinstance(got, torch.Tensor) == isinstance(want, torch.Tensor), name
    if not isinstance(want, torch.Tensor):
        assert got == want, name
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape), name
    if want.numel() > 0:
        assert got.stride() == want.stride(), f"{name}: strides {got.stride()}, eager {want.stride()}"
    if not want.is_floating_point() or reference is None:
        torch.testing.assert_close(got, want, equal_nan=True, msg=lambda m: f"{name}: {m}")
        return
    if torch.equal(got.nan_to_num(nan=7.5), want.nan_to_num(nan=7.5)) or want.numel() == 0:
        return
    if reference.dtype is not torch.float64:
        reference = reference.double()
    ours, eager = error_against(reference, got), error_against(reference, want)
    assert ours.within(eager, want.dtype), f"{name}: poot {ours}, eager {eager}"


def check(fn, *args, dynamic=None, fallbacks=(), peer=True, judge=True, **options):
    """Runs fn on copies of args. `fallbacks` are the operators that may run in eager, exactly; `options` go to poot."""
    torch._dynamo.reset()
    counters.clear()
    eager_args, our_args = copied(args), copied(args)
    want = fn(*eager_args)
    reference = fn(*widened(copied(args))) if judge else None
    options = {"strict": not fallbacks, **options}
    with torch.no_grad() if not torch.is_grad_enabled() else torch.enable_grad():
        got = torch.compile(fn, backend=poot, dynamic=dynamic, fullgraph=True, options=options)(*our_args)
    compare((our_args, got), (eager_args, want), (args, reference) if judge else None)
    assert sharing(our_args, got) == sharing(eager_args, want)
    met = {k.removeprefix("fallback:") for k in counters["poot"] if "fallback" in k}
    assert met == set(fallbacks)
    if peer:
        torch._dynamo.reset()
        peer_args = copied(args)
        theirs = torch.compile(fn, backend=PEER, dynamic=dynamic, fullgraph=True)(*peer_args)
        compare((peer_args, theirs), (eager_args, want), None)
    return got


def equal_bits(fn, *args):
    """A dict of float tensors, bit for bit (any NaN is a NaN). Eager's vector loops and their scalar
    tails may differ: sizes should be multiples of 64."""
    got, want = check(fn, *args, judge=False), fn(*args)
    for name, w in want.items():
        bits = {2: torch.int16, 4: torch.int32}[w.element_size()]
        nan = w.isnan()
        assert torch.equal(got[name].isnan(), nan), name
        assert torch.equal(got[name].masked_fill(nan, 0).view(bits), w.masked_fill(nan, 0).view(bits)), name


def compare(got, want, reference):
    """(arguments after the call, results) against eager's."""
    got_leaves, spec = pytree.tree_flatten(got[1])
    want_leaves, want_spec = pytree.tree_flatten(want[1])
    assert spec == want_spec
    names = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(want[1])[0]]
    references = pytree.tree_leaves(reference[1]) if reference else [None] * len(got_leaves)
    for name, g, w, r in zip(names, got_leaves, want_leaves, references, strict=True):
        same(name, g, w, r)
    pairs = zip(pytree.tree_leaves(got[0]), pytree.tree_leaves(want[0]), strict=True)
    for i, (g, w) in enumerate(pairs):
        if isinstance(w, torch.Tensor):
            torch.testing.assert_close(g, w, equal_nan=True, msg=lambda m, i=i: f"argument {i}: {m}")


def gradients(fn, *args, fallbacks=(), **options):
    """Loss and gradients of a scalar function, against eager by their error against float64."""

    def run(f, a):
        loss = f(*a)
        loss.backward()
        return [loss.detach()] + [t.grad for t in pytree.tree_leaves(a) if isinstance(t, torch.Tensor)]

    torch._dynamo.reset()
    counters.clear()
    options = {"strict": not fallbacks, **options}
    compiled = torch.compile(fn, backend=poot, fullgraph=True, options=options)
    want, got = run(fn, copied(args)), run(compiled, copied(args))
    reference = run(fn, widened(copied(args)))
    for i, (g, w, r) in enumerate(zip(got, want, reference, strict=True)):
        assert (g is None) == (w is None)
        if g is not None:
            same(f"gradient {i}", g, w, r)
    met = {k.removeprefix("fallback:") for k in counters["poot"] if "fallback" in k}
    assert met == set(fallbacks)
