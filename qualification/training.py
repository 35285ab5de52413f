"""Training steps of transformers' architectures through torch.compile(backend="poot"), against eager.

    python -m qualification training --only gpt2 vit

Each case takes two steps in train mode, dropout included, under one seed: forward, backward, SGD. Losses, gradients and
the parameters afterwards are judged by their error against float64, as in `models`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from qualification import sweep
from qualification.accuracy_rule import AccuracyRule
from qualification.architectures import architectures
from qualification.cases import DTYPES, Group, Suite
from qualification.gradients import SEED
from qualification.model_trial import ModelTrial, harvest
from qualification.models import SCRIPT
from qualification.result import Result, examine

STEPS, RATE = 2, 0.01


def scope() -> list[Group]:
    return [Group(name, "f32", "step", 1) for name in architectures()]


def loss_of(output: Any) -> torch.Tensor:
    """The model's own, or the mean squares of all its results: a parameter that only some result depends on would
    have no gradient in eager, and zeros from AOTAutograd."""
    loss = getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    return torch.stack([t.pow(2).mean() for t in harvest(output) if t.requires_grad]).sum()


def _steps(model: Any, fn: Callable[..., Any], arguments: dict[str, torch.Tensor]) -> tuple[Any, Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses: list[torch.Tensor] = []
    slopes: dict[str, Any] = {}
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(fn(**arguments))
        loss.backward()
        losses.append(loss.detach().clone())
        if not slopes:
            slopes = {n: p.grad.clone() if p.grad is not None else None for n, p in model.named_parameters()}
        optimizer.step()
    return dict(model.state_dict()), (losses, slopes)


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, Callable[[], Result]]]:
    if start == 0:
        architecture = architectures()[group.subject]
        trial = ModelTrial(architecture, DTYPES[group.dtype], _steps, training=True)
        yield 0, functools.partial(examine, group.case(0), trial, AccuracyRule(), against)


def reproducer(group: Group, index: int) -> str:
    return SCRIPT.format(
        case=group.case(index),
        subject=group.subject,
        seed=SEED,
        dtype=DTYPES[group.dtype],
        training=True,
        dynamic=None,
    )


SUITE = Suite("training", __doc__, scope, runs, reproducer, timeout=240)


def main(argv: list[str] | None = None) -> int:
    return sweep.main(SUITE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
