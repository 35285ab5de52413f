"""Runs one case of `ops`: eager, float64 and poot on copies of the same arguments, judged and classified."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from qualification.cases import Group
from qualification.op_cases import Sample, operators, samples
from qualification.op_judge import Outcome, copied, widened
from qualification.result import Result, examine
from qualification.rules import DatabaseRule

SEED = 20260701


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
        if not _equal(eager, self._call(self.sample.fn, self.given, SEED + 7)):
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
