"""Functions over several sizes through one torch.compile(backend="poot"), against eager.

    python -m qualification dynamic --only sizes_as_values

Each function is called with arguments of each of its sizes, in order. Compared are all results, and the number of
graphs that Dynamo made: one for each range that the program itself tells apart (0, 1, a branch on a size), and in mode
automatic, where symbols come with the second size, one more. The report must give the reason of each recompilation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from qualification import sweep
from qualification.cases import Group, Suite
from qualification.function_trial import Plain, source_of
from qualification.gradients import SEED, detached, gradients
from qualification.op_batch import capturing
from qualification.op_judge import Outcome, widened
from qualification.result import Result, examine
from qualification.rules import DatabaseRule

Size = tuple[int, ...]


def normal(*size: int) -> tuple[Any, ...]:
    return (torch.randn(size),)


def pair(rows: int, cols: int) -> tuple[Any, ...]:
    return torch.randn(rows, 6), torch.randn(cols, 6)


def with_number(rows: int, n: int) -> tuple[Any, ...]:
    return torch.randn(rows, 5), n


def strided(rows: int, cols: int) -> tuple[Any, ...]:
    return (torch.randn(cols, 2 * rows)[:, ::2].t(),)


def leaf(*size: int) -> tuple[Any, ...]:
    return (torch.randn(size, requires_grad=True),)


@dataclasses.dataclass(frozen=True)
class Case:
    fn: Callable[..., Any]
    make: Callable[..., tuple[Any, ...]]
    sizes: tuple[Size, ...]
    graphs: int  # under dynamic=True
    captures: bool  # whether Dynamo is told to trace sizes that depend on data


CASES: dict[str, Case] = {}


def over(
    *sizes: Size, make: Callable[..., tuple[Any, ...]] = normal, graphs: int = 1, captures: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES[fn.__name__] = Case(fn, make, sizes, graphs, captures)
        return fn

    return register


@over((3, 5), (7, 4), (20, 33), (2, 2))
def pointwise(x):
    return (x.sin() + 1) * x.sigmoid()


@over((3, 5), (7, 4), (20, 33))
def sizes_as_values(x):
    return x * x.shape[0] + x.sum(-1, keepdim=True) / x.shape[1]


@over((3, 5), (1, 4), (7, 6), graphs=2)
def a_size_of_one(x):
    return x.cos() + x.sum(0)


@over((3, 5), (0, 4), (7, 6), graphs=2)
def a_size_of_zero(x):
    return x.exp().sum(1), x * 2


@over((3, 4), (12, 5), (4, 6), (20, 7), graphs=2)
def a_branch_on_a_size(x):
    return x * 2 if x.shape[0] > 8 else x + 1


@over((4, 6), (8, 10), (6, 4))
def halves_of_a_size(x):
    return x.view(x.shape[0] // 2, 2, -1).sum(1)


@over((4, 6), (8, 10), (6, 4))
def pieces(x):
    a, b = x.chunk(2, dim=1)
    return torch.cat((b, a), 0), a * b


@over((5, 6), (13, 9), (16, 3))
def padded_to_a_multiple(x):
    return F.pad(x, (0, -x.shape[1] % 8)).softmax(-1)


@over((5, 6), (13, 9), (16, 3))
def positions(x):
    return x + torch.arange(x.shape[1]) * torch.ones(x.shape[0], 1)


@over((3, 4), (7, 9), (2, 11), make=pair)
def outer_of_two_symbols(x, y):
    return x @ y.t(), x[:, None] - y[None]


@over((3, 4), (7, 9), (2, 11), make=pair)
def one_size_given_to_another(x, y):
    return x.sum(0).expand(y.shape[0], 6) * y


@over((4, 6), (6, 10), (3, 5), make=strided)
def strided_arguments(x):
    return x.t().reshape(-1), x * 2, x.sum(0)


@over((6, 3), (9, 5), (12, 7), make=with_number)
def a_number_as_a_bound(x, n):
    return x[:n] * n


@over((6, 3), (9, 5), (12, 7), make=with_number)
def a_write_to_a_prefix(x, n):
    x[:n].add_(1)
    return x.sum(1)


@over((2, 4, 8, 16), (3, 2, 12, 8), (2, 3, 20, 32))
def attention(x):
    return F.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True)


@over((4, 12), (6, 20), (3, 7))
def normalised_over_a_symbol(x):
    return F.layer_norm(x, x.shape[1:]), x.softmax(0), x.var(1), x.cumsum(1)


@over((2, 3, 8, 9), (3, 3, 12, 7), (2, 3, 16, 16))
def windows(x):
    return F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1), F.interpolate(x, scale_factor=2.0)


@over((6, 9), (8, 12), (5, 20))
def ordered(x):
    return x.sort(1), x.topk(3), x.argmax(1)


@over((3, 5), (7, 4), (20, 33), make=leaf)
def gradients_over_sizes(x):
    return (x.tanh() * x.mean(0)).pow(2).sum() / x.shape[0]


@over((6, 5), (9, 4), (20, 7), captures=True)
def chosen_elements(x):
    return x[x > 0].sum() + 1


@over((6, 5), (9, 4), (20, 7), captures=True)
def places_of_elements(x):
    where = (x > 0).nonzero()
    return where * 2, where.shape[0] * x


@over((6, 3), (9, 5), (12, 7), make=with_number, captures=True)
def a_size_from_a_value(x, n):
    return x.new_ones((x > 0).sum().item()).sum() + n


class _SizesTrial:
    """All sizes of one function; a Trial."""

    def __init__(self, case: Case, dynamic: bool) -> None:
        self.case, self.dynamic = case, dynamic

    def _run(self, fn: Callable[..., Any], wide: bool = False) -> Outcome:
        torch.manual_seed(SEED)
        given, results = [], []
        try:
            for size in self.case.sizes:
                args = self.case.make(*size)
                args = widened(args) if wide else args
                value = fn(*args)
                results.append(detached((value, gradients(value, args))))
                given.append(detached(args))
        except Exception as e:
            return Outcome(error=e)
        return Outcome(given, results)

    def eager(self) -> Outcome:
        return self._run(self.case.fn)

    def wide(self, eager: Outcome) -> Outcome | None:
        return self._run(self.case.fn, wide=True)

    def reseed(self, attempt: int) -> bool:
        return False

    def compiled(self, backend: str) -> Outcome:
        torch._dynamo.reset()
        with capturing() if self.case.captures else contextlib.nullcontext():
            return self._run(torch.compile(self.case.fn, backend=backend, dynamic=True if self.dynamic else None))


def _counted(name: str, case: Case, dynamic: bool, against: str) -> Result:
    """Examined, and the report held to the number of graphs."""
    import poot_torch

    result = examine(name, _SizesTrial(case, dynamic), DatabaseRule(Plain()), against)
    if against != "poot" or result.cls in ("wrong", "skipped"):
        return result
    regions = poot_torch.last_report().to_json()["regions"]
    allowed = case.graphs + (0 if dynamic else 1)
    if len(regions) > allowed:
        reasons = "; ".join(r["recompile_reason"][:100] for r in regions if r["recompilation"])
        return dataclasses.replace(result, cls="wrong", reason=f"{len(regions)} graphs, not {allowed}: {reasons}")
    if any(r["recompilation"] and not r["recompile_reason"] for r in regions):
        return dataclasses.replace(result, cls="wrong", reason="the report gives no reason of a recompilation")
    return result


def scope() -> list[Group]:
    return [Group(name, "f32", mode, 1) for name in CASES for mode in ("dynamic", "automatic")]


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, Callable[[], Result]]]:
    if start == 0:
        case = CASES[group.subject]
        yield 0, functools.partial(_counted, group.case(0), case, group.mode == "dynamic", against)


_SCRIPT = '''"""{case}, without the suite: python THIS_FILE"""

import torch
import torch.nn.functional as F

torch._dynamo.config.capture_dynamic_output_shape_ops = {captures}
torch._dynamo.config.capture_scalar_outputs = {captures}

{source}

for fn in ({fn}, torch.compile({fn}, backend="poot", dynamic={dynamic})):
    torch.manual_seed({seed})
    for size in {sizes}:
        print(size, fn(*{make}(*size)))
'''


def reproducer(group: Group, index: int) -> str:
    case = CASES[group.subject]
    return _SCRIPT.format(
        case=group.case(index),
        captures=case.captures,
        source=source_of(case.fn, case.make),
        fn=case.fn.__name__,
        make=case.make.__name__,
        sizes=case.sizes,
        seed=SEED,
        dynamic=True if group.mode == "dynamic" else None,
    )


SUITE = Suite("dynamic", __doc__ or "", scope, runs, reproducer)


def main(argv: list[str] | None = None) -> int:
    return sweep.main(SUITE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
