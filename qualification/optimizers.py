"""Every optimizer of PyTorch's optim_db with its step compiled by torch.compile(backend="poot"), against eager.

    python -m qualification optimizers --only Adam AdamW --mode foreach

Modes: forloop, foreach, fused. Each case takes three steps with gradients drawn from one seed; parameters and the
optimizer's state must be eager's afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from qualification import sweep
from qualification.cases import ALL, DTYPES, Group, Suite
from qualification.gradients import SEED, detached
from qualification.op_judge import Outcome, copied, widened
from qualification.result import Result, examine, forget
from qualification.rules import DatabaseRule

STEPS = 3
SHAPES = ((10,), (5, 7), (64, 33), (2, 3, 4), ())
MATRICES = ((5, 7), (64, 33), (16, 16))


@functools.cache
def optimizers() -> dict[str, Any]:
    """OptimizerInfo by name."""
    from torch.testing._internal.common_optimizers import optim_db

    return {info.name: info for info in optim_db}


def _modes(info: Any) -> list[str]:
    modes = ["forloop"]
    if "foreach" in info.supported_impls:
        modes.append("foreach")
    if "fused" in info.supported_impls and "cpu" in info.supports_fused_on:
        modes.append("fused")
    return modes


def scope() -> list[Group]:
    return [
        Group(name, dtype, mode, limit)
        for name, info in optimizers().items()
        for mode in _modes(info)
        for dtype, limit in (("f32", ALL), ("f64", 2))
    ]


class _OptimizerTrial:
    """Three steps of one optimizer on a few parameters; a Trial."""

    def __init__(self, info: Any, kwargs: dict[str, Any], dtype: torch.dtype) -> None:
        self.info, self.kwargs = info, kwargs
        self.shapes = MATRICES if info.name == "Muon" else SHAPES
        generator = torch.Generator().manual_seed(SEED)

        def draw() -> list[torch.Tensor]:
            return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in self.shapes]

        self.values, self.slopes = draw(), [draw() for _ in range(STEPS)]

    def _gradient(self, g: torch.Tensor) -> torch.Tensor:
        return g.to_sparse() if self.info.only_supports_sparse_grads and g.ndim else g.clone()

    def _run(self, wide: bool, backend: str | None) -> Outcome:
        values, slopes, kwargs = copied((self.values, self.slopes, self.kwargs))  # a step writes them
        if wide:
            values, slopes, kwargs = widened((values, slopes, kwargs))
        if self.info.only_supports_sparse_grads:
            values, slopes = values[:2], [s[:2] for s in slopes]
        params = [torch.nn.Parameter(v) for v in values]
        try:
            optimizer = self.info.optim_cls(params, **kwargs)
            step: Callable[..., Any] = optimizer.step
            if backend:
                step = torch.compile(step, backend=backend)
            closure = [lambda: sum((p * p).sum() for p in params)] if self.info.step_requires_closure else []
            for given in slopes:
                for p, g in zip(params, given, strict=True):
                    p.grad = self._gradient(g)
                step(*closure)
            return Outcome((), detached((list(params), optimizer.state_dict()["state"])))
        except Exception as e:
            return Outcome(error=e)

    def eager(self) -> Outcome:
        return self._run(False, None)

    def wide(self, eager: Outcome) -> Outcome | None:
        return self._run(True, None)

    def reseed(self, attempt: int) -> bool:
        return False

    def compiled(self, backend: str) -> Outcome:
        forget()
        return self._run(False, backend)


def _arguments(group: Group) -> list[dict[str, Any]]:
    info = optimizers()[group.subject]
    flags = {f: f == group.mode for f in ("foreach", "fused") if f in info.supported_impls and f in _modes(info)}
    found = [{**i.kwargs, **flags} for i in info.optim_inputs_func("cpu")]
    return found[: group.limit]


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, Callable[[], Result]]]:
    info = optimizers()[group.subject]
    for index, kwargs in enumerate(_arguments(group)):
        if index >= start:
            trial = _OptimizerTrial(info, kwargs, DTYPES[group.dtype])
            yield index, functools.partial(examine, group.case(index), trial, DatabaseRule(info), against)


_SCRIPT = '''"""{case}, without the suite: python THIS_FILE"""

import torch
from torch import tensor  # noqa: F401  for the arguments below

kwargs = {kwargs!r}


def train(compiled):
    torch.manual_seed({seed})
    params = [torch.nn.Parameter(torch.randn(s, dtype={dtype})) for s in {shapes}]
    optimizer = torch.optim.{subject}(params, **kwargs)
    step = torch.compile(optimizer.step, backend="poot") if compiled else optimizer.step
    for _ in range({steps}):
        for p in params:
            p.grad = torch.randn_like(p)
        step()
    return params


for ours, eager in zip(train(True), train(False)):
    print("largest difference:", (ours - eager).abs().max().item(), "of", eager.abs().max().item())
'''


def reproducer(group: Group, index: int) -> str:
    shapes = MATRICES if group.subject == "Muon" else SHAPES
    kwargs = _arguments(group)[index]
    return _SCRIPT.format(
        case=group.case(index),
        kwargs=kwargs,
        seed=SEED,
        dtype=DTYPES[group.dtype],
        shapes=shapes,
        subject=group.subject,
        steps=STEPS,
    )


SUITE = Suite("optimizers", __doc__, scope, runs, reproducer)


def main(argv: list[str] | None = None) -> int:
    return sweep.main(SUITE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
