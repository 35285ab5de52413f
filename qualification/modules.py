"""Every module of PyTorch's module_db through torch.compile(backend="poot"), forward and backward, against eager.

    python -m qualification modules --only nn.Linear nn.BatchNorm2d

Modes: training (train mode, gradients of arguments and parameters), inference (eval mode, no gradients), eval (eval
mode with gradients, where that differs) and dynamic (inference under dynamic=True). Arguments and the module's state
must be left as eager leaves them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from qualification import sweep
from qualification.cases import ALL, DTYPES, Group, Suite
from qualification.gradients import SEED, detached, equal, gradients
from qualification.op_batch import capturing
from qualification.op_judge import Outcome, copied, widened
from qualification.result import Result, examine, forget
from qualification.rules import DatabaseRule

SCOPE = (
    ("training", ("f32",), ALL),
    ("inference", ("f32",), ALL),
    ("eval", ("f32",), ALL),
    ("dynamic", ("f32",), 2),
    ("training", ("f64",), 2),
)


@functools.cache
def modules() -> dict[str, Any]:
    """ModuleInfo by name."""
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def scope() -> list[Group]:
    return [
        Group(name, dtype, mode, limit)
        for name, info in modules().items()
        for mode, dtypes, limit in SCOPE
        for dtype in dtypes
        if DTYPES[dtype] in info.supported_dtypes("cpu") and (mode != "eval" or info.train_and_eval_differ)
    ]


class _ModuleTrial:
    """One module on one set of arguments; a Trial."""

    def __init__(self, info: Any, sample: Any, dtype: torch.dtype, mode: str) -> None:
        self.mode = mode
        self.wants_gradients = mode in ("training", "eval")
        made, given = sample.constructor_input, sample.forward_input
        self.given = (given.args, given.kwargs) if given is not None else ((), {})
        torch.manual_seed(SEED)
        self.module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(mode == "training")
        if info.is_lazy:
            args, kwargs = copied(self.given)
            with torch.no_grad():
                self.module(*args, **kwargs)

    def _call(self, module: Any, fn: Callable[..., Any], given: Any, seed: int = SEED) -> Outcome:
        args, kwargs = copied(given)
        torch.manual_seed(seed)
        try:
            with torch.set_grad_enabled(self.wants_gradients):
                results = fn(*args, **kwargs)
            found: Any = []
            if self.wants_gradients:
                found = gradients(results, (args, kwargs, dict(module.named_parameters())))
            left = (args, kwargs, dict(module.state_dict()))
            return Outcome(detached(left), detached((results, found)))
        except Exception as e:
            return Outcome(error=e)

    def eager(self) -> Outcome:
        module = copy.deepcopy(self.module)
        return self._call(module, module, self.given)

    def wide(self, eager: Outcome) -> Outcome | None:
        """None for what depends on the seed: draws differ between dtypes."""
        module = copy.deepcopy(self.module)
        if not equal(eager, self._call(module, module, self.given, SEED + 7)):
            return None
        module = copy.deepcopy(self.module).double()
        return self._call(module, module, widened(self.given))

    def reseed(self, attempt: int) -> bool:
        return False

    def compiled(self, backend: str) -> Outcome:
        """Under the options that let values and sizes that depend on data reach the backend, unless those are what
        breaks PyTorch's pipeline."""
        found = Outcome()
        for options in (capturing(), contextlib.nullcontext()):
            forget()
            module = copy.deepcopy(self.module)
            dynamic = True if self.mode == "dynamic" else None
            with options:
                found = self._call(module, torch.compile(module, backend=backend, dynamic=dynamic), self.given)
            if found.error is None:
                break
        return found


def _samples(group: Group) -> list[Any]:
    info = modules()[group.subject]
    training = group.mode == "training"
    torch.manual_seed(SEED)
    return info.module_inputs_func(
        info,
        device="cpu",
        dtype=DTYPES[group.dtype],
        requires_grad=group.mode in ("training", "eval"),
        training=training,
    )[: group.limit]


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, Callable[[], Result]]]:
    info = modules()[group.subject]
    rule = DatabaseRule(info)
    for index, sample in enumerate(_samples(group)):
        if index >= start:
            trial = _ModuleTrial(info, sample, DTYPES[group.dtype], group.mode)
            yield index, functools.partial(examine, group.case(index), trial, rule, against)


_SCRIPT = '''"""{case}, without the suite: python THIS_FILE"""

import copy

import torch
from torch.testing._internal.common_modules import module_db

info = next(i for i in module_db if i.name == {subject!r})
torch.manual_seed({seed})
sample = info.module_inputs_func(
    info, device="cpu", dtype={dtype}, requires_grad={grad}, training={training}
)[{index}]
made, given = sample.constructor_input, sample.forward_input
torch.manual_seed({seed})
module = info.module_cls(*made.args, **made.kwargs).to({dtype}).train({training})
print(module, given.args, given.kwargs)


def call(module, fn):
    torch.manual_seed({seed})
    with torch.set_grad_enabled({grad}):
        result = fn(*given.args, **given.kwargs)
        if {grad} and result.requires_grad:
            wanted = [t for t in (*given.args, *module.parameters()) if getattr(t, "requires_grad", False)]
            print("gradients:", torch.autograd.grad(result.sum(), wanted, allow_unused=True))
    print("result:", result)


other = copy.deepcopy(module)
call(module, module)
call(other, torch.compile(other, backend="poot", dynamic={dynamic}))
'''


def reproducer(group: Group, index: int) -> str:
    return _SCRIPT.format(
        case=group.case(index),
        subject=group.subject,
        seed=SEED,
        dtype=DTYPES[group.dtype],
        grad=group.mode in ("training", "eval"),
        training=group.mode == "training",
        index=index,
        dynamic=True if group.mode == "dynamic" else None,
    )


SUITE = Suite("modules", __doc__, scope, runs, reproducer)


def main(argv: list[str] | None = None) -> int:
    return sweep.main(SUITE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
