"""Runs one case of `ops`: eager, float64 and poot on copies of the same arguments, judged and classified."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from qualification.cases import Group
from qualification.gradients import SEED, detached, equal, gradients
from qualification.op_cases import Sample, operators, samples
from qualification.op_judge import Outcome, copied, widened
from qualification.result import Result, examine
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

    def __init__(self, group: Group, sample: Sample) -> None:
        self.sample, self.mode = sample, group.mode
        self.given = (sample.args, sample.kwargs)

    def _call(self, fn: Callable[..., Any], given: tuple[Any, Any], seed: int = SEED) -> Outcome:
        return call(fn, self.sample, given, self.mode, seed)

    def eager(self) -> Outcome:
        return self._call(self.sample.fn, self.given)

    def wide(self, eager: Outcome) -> Outcome | None:
        """None for what depends on the seed: draws differ between dtypes."""
        if not equal(eager, self._call(self.sample.fn, self.given, SEED + 7)):
            return None
        return self._call(self.sample.fn, widened(self.given))

    def compiled(self, backend: str) -> Outcome:
        torch._dynamo.reset()
        dynamic = True if self.mode == "dynamic" else None
        return self._call(torch.compile(self.sample.fn, backend=backend, dynamic=dynamic), self.given)


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, Callable[[], Result]]]:
    rule = DatabaseRule(operators()[group.subject])
    for sample in samples(group, start):
        name = group.case(sample.index)
        yield sample.index, functools.partial(examine, name, _OpTrial(group, sample), rule, against)
