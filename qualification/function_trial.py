"""Plain functions as cases: the Trial of `mutation` and `breaks`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import torch

from qualification.cases import Group
from qualification.gradients import SEED, tensors
from qualification.op_judge import Outcome, widened


class FunctionTrial:
    """`calls` calls of one function, each on fresh arguments made under one seed. Results are those of all calls, with
    how far the version counters of the arguments moved."""

    def __init__(self, fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]], dynamic: bool, calls: int) -> None:
        self.fn, self.make, self.dynamic, self.calls = fn, make, dynamic, calls

    def arguments(self) -> tuple[Any, ...]:
        torch.manual_seed(SEED)
        return self.make()

    def _run(self, fn: Callable[..., Any], wide: bool = False) -> Outcome:
        args: tuple[Any, ...] = ()
        results = []
        try:
            for _ in range(self.calls):
                args = self.arguments()
                args = widened(args) if wide else args
                before = [t._version for t in tensors(args)]
                torch.manual_seed(SEED)
                value = fn(*args)
                moved = [t._version - b for t, b in zip(tensors(args), before, strict=True)]
                results.append((value, moved))
        except Exception as e:
            return Outcome(error=e)
        return Outcome(tensors(args), results)

    def eager(self) -> Outcome:
        return self._run(self.fn)

    def wide(self, eager: Outcome) -> Outcome | None:
        return None  # copying to another dtype would undo what the arguments share

    def reseed(self, attempt: int) -> bool:
        return False

    def compiled(self, backend: str) -> Outcome:
        torch._dynamo.reset()
        return self._run(torch.compile(self.fn, backend=backend, dynamic=True if self.dynamic else None))


_SCRIPT = '''"""{case}, without the suite: python THIS_FILE"""

import torch

{source}

for fn in ({fn}, torch.compile({fn}, backend="poot", dynamic={dynamic})):
    torch.manual_seed({seed})
    args = {make}()
    print(fn(*args), args)
'''
Make = Callable[[], tuple[Any, ...]]


class Functions:
    """A list of functions, each registered with what makes its arguments: `@functions(make)`."""

    def __init__(self) -> None:
        self.cases: dict[str, tuple[Callable[..., Any], Make]] = {}

    def __call__(self, make: Make) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.cases[fn.__name__] = (fn, make)
            return fn

        return register

    def scope(self) -> list[Group]:
        return [Group(name, "f32", mode, 1) for name in self.cases for mode in ("static", "dynamic")]

    def trial(self, group: Group) -> FunctionTrial:
        """Of two calls: the second meets what the first compiled."""
        return FunctionTrial(*self.cases[group.subject], dynamic=group.mode == "dynamic", calls=2)

    def reproducer(self, group: Group, index: int) -> str:
        fn, make = self.cases[group.subject]
        return _SCRIPT.format(
            case=group.case(index),
            source=source_of(fn, make),
            fn=fn.__name__,
            make=make.__name__,
            seed=SEED,
            dynamic=True if group.mode == "dynamic" else None,
        )


def source_of(fn: Callable[..., Any], make: Callable[..., Any]) -> str:
    """Both functions as text without decorators, for a reproducer."""
    parts = [textwrap.dedent(inspect.getsource(f)).replace("tuple[Any, ...]", "tuple") for f in (make, fn)]
    return "\n\n".join("\n".join(x for x in p.splitlines() if not x.startswith("@")) for p in parts)


class Plain:
    """An entry of a database without tolerances of its own."""

    decorators = ()
