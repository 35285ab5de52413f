"""Runs one case of `ops`: eager, float64 and poot on copies of the same arguments, judged and classified."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from qualification.cases import Group
from qualification.gradients import SEED, detached, equal, gradients
from qualification.op_batch import Batch, capturing
from qualification.op_cases import Sample, operators, samples
from qualification.op_judge import Outcome, Wrong, copied, judge, widened
from qualification.result import LEFT, Result, examine, forget, quiet
from qualification.rules import DatabaseRule


def call(fn: Callable[..., Any], sample: Sample, given: tuple[Any, Any], mode: str, seed: int = SEED) -> Outcome:
    """fn on a copy of the arguments under one seed; in mode grad the results are (outputs, gradients)."""
    args, kwargs = copied(given)
    torch.manual_seed(seed)
    try:
        if mode == "grad":
            results = fn(*args, **kwargs)
            found = gradients(sample.outputs(results), (args, kwargs))
            return Outcome(detached((args, kwargs)), detached((results, found)))
        with torch.no_grad():
            results = fn(*args, **kwargs)
        return Outcome((args, kwargs), results)
    except Exception as e:
        return Outcome(error=e)


class _OpTrial:
    """One sample of an operator; a Trial."""

    def __init__(self, sample: Sample, mode: str) -> None:
        self.sample, self.mode = sample, mode
        self.given = (sample.args, sample.kwargs)
        self.refused = ""  # what eager raised
        self.raised = False  # whether the last compiled call did

    def _call(self, fn: Callable[..., Any], given: tuple[Any, Any], seed: int = SEED) -> Outcome:
        return call(fn, self.sample, given, self.mode, seed)

    def eager(self) -> Outcome:
        found = self._call(self.sample.fn, self.given)
        self.refused = type(found.error).__name__ if found.error else ""
        return found

    def random(self, eager: Outcome) -> bool:
        return not equal(eager, self._call(self.sample.fn, self.given, SEED + 7))

    def wide(self, eager: Outcome) -> Outcome | None:
        """None for what depends on the seed: draws differ between dtypes."""
        return None if self.random(eager) else self._call(self.sample.fn, widened(self.given))

    def reseed(self, attempt: int) -> bool:
        return False

    def compiled(self, backend: str) -> Outcome:
        found = Outcome()
        for options in (capturing(), contextlib.nullcontext()):
            forget()
            dynamic = True if self.mode == "dynamic" else None
            with options:
                found = self._call(torch.compile(self.sample.fn, backend=backend, dynamic=dynamic), self.given)
            if found.error is None:  # capturing may be what breaks PyTorch's pipeline
                break
        self.raised = found.error is not None
        return found


class _OpCase:
    """One case; called, it is judged alone."""

    def __init__(self, group: Group, sample: Sample, against: str) -> None:
        self.group, self.sample, self.against = group, sample, against
        self.name = group.case(sample.index)
        self.rule = DatabaseRule(operators()[group.subject])

    def __call__(self) -> Result:
        trial = _OpTrial(self.sample, self.group.mode)
        result = examine(self.name, trial, self.rule, self.against)
        if result.cls == "wrong" and result.upstream and trial.raised:
            result.cls, result.reason = "skipped", f"PyTorch's own pipeline raises: {result.reason}"
        elif result.reason.startswith(LEFT) or (result.cls == "fallback" and trial.refused):
            if trial.refused:
                result.cls, result.reason = "skipped", f"eager refuses the arguments: {trial.refused}"
            else:  # a graph break before and after the operator
                result.cls = "fallback"
        return result

    def judge(self, got: Outcome, want: Outcome) -> None:
        """Raises Wrong. Double precision is asked only where tolerances are exceeded."""
        try:
            judge(got, want, None, self.rule)
        except Wrong:
            wide = _OpTrial(self.sample, self.group.mode).wide(want)
            if wide is None:
                raise
            judge(got, want, wide, self.rule)

    def again(self, why: str) -> Result:
        """After a wrong result among others."""
        result = self()
        if result.cls != "wrong":
            trial = _OpTrial(self.sample, self.group.mode)
            if not trial.random(trial.eager()):
                result.cls, result.reason = "wrong", f"right alone, beside other calls: {why}"
        return result


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, _OpCase]]:
    for sample in samples(group, start):
        yield sample.index, _OpCase(group, sample, against)


def together(cases: Sequence[_OpCase], against: str) -> Iterator[Result]:
    """Cases of one mode in one compiled function. Where it raises, or its report cannot tell the calls apart, they are
    halved; a result that differs is judged again alone, against float64."""
    found = _in_one(cases, against) if len(cases) > 1 else None
    if found is not None:
        for case, result in zip(cases, found, strict=True):
            yield case.again(str(result)) if isinstance(result, Wrong) else result
    elif len(cases) == 1:
        yield cases[0]()
    else:
        half = len(cases) // 2
        yield from together(cases[:half], against)
        yield from together(cases[half:], against)


def _in_one(cases: Sequence[_OpCase], against: str) -> list[Result | Wrong] | None:
    """A result or what is wrong, of each case; None if they must be run apart."""
    batch = Batch([c.sample for c in cases], cases[0].group.mode)
    start = time.perf_counter()
    try:
        with quiet():
            want = batch.run(batch.fn)
            forget()
            compiled = torch.compile(batch.fn, backend=against, dynamic=True if batch.mode == "dynamic" else None)
            before = time.perf_counter()
            with capturing():
                got = batch.run(compiled)
            first_call = time.perf_counter() - before
    except Exception:
        return None
    finally:
        batch.forget()
    results = [Result(c.name, "right", first_call_s=round(first_call / len(cases), 4)) for c in cases]
    if against == "poot" and not batch.classify(results):
        return None
    found: list[Result | Wrong] = []
    for case, result, g, w in zip(cases, results, got, want, strict=True):
        try:
            case.judge(g, w)
            found.append(result)
        except Wrong as e:
            found.append(e)
    each = round((time.perf_counter() - start) / len(cases), 4)
    for result in results:
        result.seconds = each
    return found
