"""Graph breaks, recompilations and fallbacks: right results, and a report that counts what Dynamo counts.

    python -m qualification breaks --only print_in_the_middle

Each function is called twice through torch.compile(backend="poot") and must do what eager does. Then poot's report is
held to Dynamo's own count of graph breaks, and names a source line for each.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from qualification import sweep
from qualification.cases import Group, Suite
from qualification.function_trial import Functions, FunctionTrial, Plain
from qualification.result import Result, examine, forget, quiet
from qualification.rules import DatabaseRule

case = Functions()


def _one() -> tuple[Any, ...]:
    return (torch.randn(6, 8),)


def _two() -> tuple[Any, ...]:
    return torch.randn(6, 8), torch.randn(6, 8)


def _sizes() -> tuple[Any, ...]:
    return torch.randn(5, 8), 3


def _model() -> tuple[Any, ...]:
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LSTM(16, 4)), torch.randn(6, 8)


@case(_one)
def no_break(x):
    return x.sin() + x.cos()


@case(_one)
def print_in_the_middle(x):
    y = x.sin()
    print("between", y.shape)
    return y.cos()


@case(_one)
def explicit_break(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@case(_one)
def two_breaks(x):
    y = x + 1
    torch._dynamo.graph_break()
    y = y * 2
    torch._dynamo.graph_break()
    return y.exp()


@case(_one)
def break_in_called_function(x):
    def inner(z):
        z = z * 2
        torch._dynamo.graph_break()
        return z + 1

    return inner(x).tanh()


@case(_one)
def branch_on_a_value(x):
    y = x * 2
    if y.sum() > 0:
        return y.relu()
    return y.neg()


@case(_one)
def number_of_a_tensor(x):
    n = x.sum().item()
    return x * n


@case(_one)
def numbers_as_a_list(x):
    return x + sum(x[0].tolist())


@case(_one)
def loop_with_a_break(x):
    for i in range(3):
        x = x + i
        if i == 1:
            torch._dynamo.graph_break()
    return x.sin()


@case(_one)
def through_numpy(x):
    y = x.numpy() * 2
    return torch.from_numpy(y) + x


@case(_one)
def disabled_function(x):
    @torch._dynamo.disable
    def eager_only(z):
        return z.flip(0) * 3

    return eager_only(x + 1).cos()


@case(_one)
def caught_exception(x):
    try:
        y = x @ x
    except RuntimeError:
        y = x @ x.t()
    return y.sum(1)


@case(_one)
def raised_by_the_call(x):
    return x @ x


@case(_two)
def sizes_that_depend_on_data(x, y):
    return x[y > 0].sum() + y.nonzero().shape[0]


@case(_two)
def break_between_mutations(x, y):
    x.add_(1)
    torch._dynamo.graph_break()
    y.mul_(x)
    return x, y


@case(_sizes)
def python_number_as_argument(x, n):
    return x * n + x.shape[0]


@case(_model)
def module_that_dynamo_leaves_out(model, x):
    out, _ = model(x)
    return out.detach() * 2


def _dynamo_breaks(trial: FunctionTrial) -> int:
    """What Dynamo itself counts on one call. Its counter leaves out branches on values, `explain` counts graphs, of
    which a break may have none before it: the larger is right."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    before = counters["graph_break"].total()
    FunctionTrial(trial.fn, trial.make, trial.dynamic, calls=1).compiled("eager")
    counted = counters["graph_break"].total() - before
    torch._dynamo.reset()
    try:
        return max(int(counted), int(torch._dynamo.explain(trial.fn)(*trial.arguments()).graph_break_count))
    finally:
        torch._dynamo.reset()


def _accounted(name: str, trial: FunctionTrial, against: str) -> Result:
    import poot_torch

    result = examine(name, trial, DatabaseRule(Plain()), against)
    if against != "poot" or result.cls in ("wrong", "skipped"):
        return result
    with quiet():
        forget()
        FunctionTrial(trial.fn, trial.make, trial.dynamic, calls=1).compiled("poot")
        report = poot_torch.last_report().to_json()
        told = [r["break"] for r in report["regions"] if r["break"]]
        hidden = report["breaks_without_graph"]
        counted = _dynamo_breaks(trial)
    lines = [b for b in told if b["sources"] and re.search(r":\d+, in ", b["sources"][-1])]
    if len(lines) < len(told):
        return dataclasses.replace(result, cls="wrong", reason="a graph break without its source line")
    if len(told) + len(hidden) != counted and not report["eager_frames"]:
        text = f"report: {len(told)} breaks and {len(hidden)} without a graph, Dynamo: {counted}"
        return dataclasses.replace(result, cls="wrong", reason=text)
    return result


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, Callable[[], Result]]]:
    if start == 0:
        yield 0, functools.partial(_accounted, group.case(0), case.trial(group), against)


SUITE = Suite("breaks", __doc__, case.scope, runs, case.reproducer)


def main(argv: list[str] | None = None) -> int:
    return sweep.main(SUITE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
