"""One compiled function that makes many of op_db's calls, so that tracing and compiling are paid for once.

Each call stands on a line of its own, by which poot's report tells whose operators fell back or went to a library:
the innermost outside torch, to which op_db's own functions belong.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

import poot_torch
from qualification.gradients import SEED, cotangents, detached, tensors
from qualification.op_cases import Sample
from qualification.op_judge import Outcome, copied
from qualification.result import Result
from qualification.table import CLASSES

_FIRST_LINE = 3
_numbers = itertools.count()


def capturing() -> Any:
    """Dynamo's options under which operators reach the backend whose results depend on data in size or are numbers."""
    return torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True)


class Batch:
    """Calls under one seed, in order."""

    def __init__(self, samples: Sequence[Sample], mode: str) -> None:
        self.samples, self.mode = samples, mode
        self._file = f"<calls {next(_numbers)}>"

    @functools.cached_property
    def fn(self) -> Callable[..., Any]:
        lines = [f"        op{i}(*calls[{i}][0], **calls[{i}][1]),\n" for i in range(len(self.samples))]
        source = ["def batch(calls):\n", "    return [\n", *lines, "    ]\n"]
        linecache.cache[self._file] = (sum(map(len, source)), None, source, self._file)
        scope: dict[str, Any] = {f"op{i}": s.op for i, s in enumerate(self.samples)}
        exec(compile("".join(source), self._file, "exec"), scope)
        return scope["batch"]

    def forget(self) -> None:
        linecache.cache.pop(self._file, None)

    def run(self, fn: Callable[..., Any]) -> list[Outcome]:
        """fn, which is self.fn or compiled from it, on copies of the arguments; one outcome a call. Raises what fn
        raises."""
        given = [copied((s.args, s.kwargs)) for s in self.samples]
        torch.manual_seed(SEED)
        if self.mode == "grad":
            results = fn(given)
            pairs = zip(given, results, self._gradients(given, results), strict=True)
            return [Outcome(detached(g), detached((r, d))) for g, r, d in pairs]
        with torch.no_grad():
            results = fn(given)
        return [Outcome(g, r) for g, r in zip(given, results, strict=True)]

    def _gradients(self, given: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """As `gradients` of each call, in one pass for all."""
        outs, outer, wanted = [], [], []
        for sample, args, result in zip(self.samples, given, results, strict=True):
            mine = [t for t in tensors(sample.outputs(result)) if t.requires_grad]
            arguments = [t for t in tensors(args) if t.requires_grad]
            wanted.append(arguments if mine else [])
            if arguments:
                outs += mine
                outer += cotangents(mine)
        flat = [t for ts in wanted for t in ts]
        found = iter(torch.autograd.grad(outs, flat, outer, allow_unused=True) if outs and flat else ())
        return [tuple(next(found) for _ in ts) if ts else [] for ts in wanted]

    def classify(self, results: Sequence[Result]) -> bool:
        """Gives each call's result its class, from poot's report; False where the report does not tell them apart."""
        report = poot_torch.last_report()
        broken = any(r.break_reason for r in report.regions) or any(g.whole_graph for g in report.graphs)
        if report.eager_frames or not report.graphs or broken:
            return False
        if any(graph.kind == "backward" for graph in report.graphs):
            for r in results:
                r.backward = "generated"
        for graph in report.graphs:
            for op in graph.native.get("ops", ()):
                owners = {self._owner(o["source"]) for o in op["origins"]}
                owner = owners.pop() if len(owners) == 1 else None
                if owner is not None:
                    counts = results[owner].counts
                    counts[op["class"]] = counts.get(op["class"], 0) + 1
                    if graph.kind == "backward" and op["class"] in ("library", "fallback"):
                        results[owner].backward = max(results[owner].backward, op["class"], key=CLASSES.index)
                elif op["class"] in ("library", "fallback"):
                    return False
            for f in graph.fallbacks:
                owner = self._owner(f.source)
                if owner is None:
                    return False
                results[owner].fallbacks.append([f.op, f.reason])
                if graph.kind == "backward":
                    results[owner].backward = "fallback"
        for r in results:
            r.cls = "fallback" if r.fallbacks else "library" if r.counts.get("library") else "generated"
            r.reason = "; ".join(f"{op}: {why}" for op, why in r.fallbacks)
        return True

    def _owner(self, source: str) -> int | None:
        """The call on whose line the operator stands."""
        match = re.match(r":(\d+)", source[len(self._file) :]) if source.startswith(self._file) else None
        return int(match[1]) - _FIRST_LINE if match else None
