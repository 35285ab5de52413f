"""The result of one case, and its class from poot's own report."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

from qualification.op_judge import Outcome, Wrong, judge
from qualification.rules import Rule, Unsettled

PEER = "aot_eager_decomp_partition"
LEFT = "Dynamo leaves"  # how the reason of what no backend sees begins


@dataclasses.dataclass
class Result:
    """One case. `cls` is generated, library, broken (every graph generated or library, but Dynamo broke it into
    several), fallback, wrong or skipped; of another backend than poot: right, wrong or skipped. `backward` is the class
    of its backward graphs, empty where there are none. `upstream` says of a wrong one that PyTorch's own pipeline, run
    by eager's kernels, is wrong too."""

    id: str
    cls: str
    reason: str = ""
    fallbacks: list[list[str]] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)  # operators of all graphs by class
    backward_counts: dict[str, int] = dataclasses.field(default_factory=dict)  # of these, those of backward graphs
    tally: dict[str, int] = dataclasses.field(default_factory=dict)  # what the rule counts beside its verdict
    backward: str = ""
    upstream: bool = False
    breaks: int = 0
    first_call_s: float = 0.0  # tracing, compiling and the first run
    seconds: float = 0.0  # the whole case


class Trial(Protocol):
    """One case's calls, each on its own copy of everything it touches, under one seed."""

    def eager(self) -> Outcome: ...
    def wide(self, eager: Outcome) -> Outcome | None:
        """The call at double precision; None where there is no meaningful one."""

    def compiled(self, backend: str) -> Outcome: ...
    def reseed(self, attempt: int) -> bool:
        """Takes other values for the next calls; False if there are none."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _of_backward(result: Result, graphs: list[Any]) -> None:
    found = [g for g in graphs if g.kind == "backward"]
    counts: collections.Counter[str] = collections.Counter()
    for g in found:
        counts.update(g.classes())
    result.backward_counts = dict(counts)
    if any(g.fallbacks for g in found) or counts["fallback"]:
        result.backward = "fallback"
    else:
        result.backward = "library" if counts["library"] else "generated" if found else ""


def classify(result: Result) -> None:
    """The class of a right result of poot's, and what its report counts."""
    import poot_torch

    report = poot_torch.last_report()
    result.fallbacks = [[f.op, f.reason] for f in report.fallbacks]
    result.counts = dict(report.totals()["classes"])
    _of_backward(result, report.graphs)
    reasons = [r.break_reason for r in report.regions if r.break_reason]
    result.breaks = len(reasons)
    left = [f["reason"] for f in report.eager_frames] + report.breaks_without_graph
    why = left[0] if left else "no tensor work reaches a backend"
    if not report.graphs:
        result.cls, result.reason = "skipped", f"{LEFT} it to eager: {why}"
    elif report.eager_frames:
        result.cls, result.reason = "fallback", f"{LEFT} a frame to eager: {why}"
    elif result.fallbacks or result.counts.get("fallback"):
        result.cls, result.reason = "fallback", "; ".join(f"{op}: {why}" for op, why in result.fallbacks)
    elif reasons:
        where = next(r.break_sources[-1] for r in report.regions if r.break_reason and r.break_sources)
        result.cls, result.reason = "broken", f"graph break: {reasons[0]} at {where}"
    else:
        result.cls = "library" if result.counts.get("library") else "generated"


def _classify_peer(result: Result) -> None:
    """Of another backend there is no report: what it leaves to eager counts as right."""
    result.cls = "right"


def forget() -> None:
    """What Dynamo compiled, and what poot reports of it. Dynamo tells a backend only after a compile that succeeded."""
    from poot_torch import report

    torch._dynamo.reset()
    report.clear()


def examine(name: str, trial: Trial, rule: Rule, against: str) -> Result:
    """Eager, double precision and the backend `against` on the same case, judged and classified."""
    result = Result(name, "wrong")
    start = time.perf_counter()
    tell: Callable[[Result], None] = classify if against == "poot" else _classify_peer
    with quiet():
        want = trial.eager()
        reference = trial.wide(want) if want.error is None else None
        forget()
        before = time.perf_counter()
        got = trial.compiled(against)
        result.first_call_s = round(time.perf_counter() - before, 3)
        try:
            settle(trial, got, want, reference, rule, against)
            tell(result)
        except Wrong as e:
            tell(result)
            result.cls, result.reason = "wrong", str(e)
            result.upstream = _upstream(trial, want, reference, rule.fresh(), str(e))
    if want.error is not None and result.cls == "skipped":
        result.reason = f"eager refuses the arguments: {type(want.error).__name__}"
    result.tally = dict(rule.tally)
    result.seconds = round(time.perf_counter() - start, 3)
    return result


def settle(trial: Trial, got: Outcome, want: Outcome, reference: Outcome | None, rule: Rule, against: str) -> None:
    """Judges; where the rule cannot tell, over all seeds that the trial has: it does not stop at the first that would
    pass. Raises Wrong."""
    for attempt in itertools.count(1):
        unsettled = None
        try:
            judge(got, want, reference, rule)
        except Unsettled as e:
            unsettled = e
        if (attempt == 1 and not unsettled) or not trial.reseed(attempt):
            if unsettled:
                raise unsettled
            return
        want = trial.eager()
        reference = trial.wide(want)
        got = trial.compiled(against)


def _upstream(trial: Trial, want: Outcome, reference: Any, rule: Rule, message: str) -> bool:
    try:
        judge(trial.compiled(PEER), want, reference, rule)
    except Wrong as theirs:
        return str(theirs).split(":")[0] == message.split(":")[0]
    return False
