"""Runs one case of `ops`: eager, float64 and poot on copies of the same arguments, judged and classified."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from qualification.op_cases import Group, Sample, operators
from qualification.op_judge import Outcome, Wrong, copied, judge, widened

PEER = "aot_eager_decomp_partition"
SEED = 20260701


@dataclasses.dataclass
class Result:
    """One case. `cls` is generated, library, fallback, wrong or skipped; `upstream` says of a wrong one that
    PyTorch's own pipeline, run by eager's kernels, is wrong too."""

    id: str
    cls: str
    reason: str = ""
    fallbacks: list[list[str]] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    upstream: bool = False
    seconds: float = 0.0


def _leaves(tree: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def _backward(sample: Sample, args: Any, results: Any) -> Any:
    """Gradients of every argument that wants one, against cotangents drawn from one seed."""
    outs = [t for t in _leaves(sample.outputs(results)) if t.requires_grad]
    wanted = [t for t in _leaves(args) if t.requires_grad]
    torch.manual_seed(SEED + 1)
    cotangents = [torch.randn(t.shape, dtype=torch.complex128 if t.is_complex() else torch.float64) for t in outs]
    if not outs or not wanted:
        return []
    return torch.autograd.grad(
        outs, wanted, [c.to(t.dtype) for c, t in zip(cotangents, outs, strict=True)], allow_unused=True
    )


def _detached(tree: Any) -> Any:
    return pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, tree)


def call(fn: Callable[..., Any], sample: Sample, given: tuple[Any, Any], mode: str, seed: int = SEED) -> Outcome:
    """fn on a copy of the arguments under one seed; in mode grad the results are (outputs, gradients)."""
    args, kwargs = copied(given)
    torch.manual_seed(seed)
    try:
        if mode == "grad":
            results = fn(*args, **kwargs)
            gradients = _backward(sample, (args, kwargs), results)
            return Outcome(_detached((args, kwargs)), _detached((results, gradients)))
        with torch.no_grad():
            results = fn(*args, **kwargs)
        return Outcome((args, kwargs), results)
    except Exception as e:
        return Outcome(error=e)


def _equal(a: Outcome, b: Outcome) -> bool:
    x, y = _leaves(a.results), _leaves(b.results)
    return len(x) == len(y) and all(
        torch.equal(s.nan_to_num(), t.nan_to_num()) if s.layout is torch.strided and s.shape == t.shape else True
        for s, t in zip(x, y, strict=True)
    )


def _compiled(fn: Callable[..., Any], backend: Any, mode: str) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend=backend, dynamic=True if mode == "dynamic" else None)


def _classify(result: Result) -> None:
    """The class of a right result, from poot's own report."""
    import poot_torch

    report = poot_torch.last_report()
    result.fallbacks = [[f.op, f.reason] for f in report.fallbacks]
    result.counts = dict(report.totals()["classes"])
    breaks = sum(bool(r.break_reason) for r in report.regions)
    if report.eager_frames or not report.graphs:
        why = report.eager_frames[0]["reason"] if report.eager_frames else "no tensor work reaches a backend"
        result.cls, result.reason = "skipped", f"Dynamo leaves it to eager: {why}"
    elif result.fallbacks or result.counts.get("fallback"):
        result.cls, result.reason = "fallback", "; ".join(f"{op}: {why}" for op, why in result.fallbacks)
    elif breaks:
        result.cls, result.reason = (
            "fallback",
            "graph break: " + next(r.break_reason for r in report.regions if r.break_reason),
        )
    else:
        result.cls = "library" if result.counts.get("library") else "generated"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def run_sample(group: Group, sample: Sample) -> Result:
    from poot_torch.backend import poot

    info = operators()[group.op]
    result = Result(group.case(sample.index), "wrong")
    start = time.perf_counter()
    given = (sample.args, sample.kwargs)
    with _quiet():
        want = call(sample.fn, sample, given, group.mode)
        reference = None
        if want.error is None and _equal(want, call(sample.fn, sample, given, group.mode, SEED + 7)):
            reference = call(sample.fn, sample, widened(given), group.mode)
        got = call(_compiled(sample.fn, poot, group.mode), sample, given, group.mode)
        try:
            judge(got, want, reference, info)
            _classify(result)
        except Wrong as e:
            _classify(result)
            result.cls, result.reason = "wrong", str(e)
            peer = call(_compiled(sample.fn, PEER, group.mode), sample, given, group.mode)
            try:
                judge(peer, want, reference, info)
            except Wrong as theirs:
                result.upstream = str(theirs).split(":")[0] == str(e).split(":")[0]
    result.seconds = round(time.perf_counter() - start, 3)
    return result
