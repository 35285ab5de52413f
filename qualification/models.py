"""Architectures of transformers at small size through torch.compile(backend="poot"), inference, against eager.

    python -m qualification models --only bert mamba --dtype f32

The outputs are judged by their error against float64: at most 1.5 times eager's, or 2 ulp at each tensor's scale, and
NaN where eager has NaN (`qualification/accuracy_rule.py`). Strict mode is tried first; a class other than fallback
means that it held.
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
from qualification.result import Result, examine

SCOPE = (("inference", "f32"), ("inference", "bf16"), ("dynamic", "f32"))


def scope() -> list[Group]:
    return [Group(name, dtype, mode, 1) for name in architectures() for mode, dtype in SCOPE]


def _forward(model: Any, fn: Callable[..., Any], arguments: dict[str, torch.Tensor]) -> tuple[Any, Any]:
    with torch.no_grad():
        results = list(harvest(fn(**arguments)))
    return dict(model.named_buffers()), results


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, Callable[[], Result]]]:
    if start == 0:
        architecture = architectures()[group.subject]
        trial = ModelTrial(architecture, DTYPES[group.dtype], _forward, dynamic=group.mode == "dynamic")
        yield 0, functools.partial(examine, group.case(0), trial, AccuracyRule(), against)


SCRIPT = '''"""{case}: python THIS_FILE, in a checkout of poot, whose suite holds the configuration."""

import copy

import torch

from qualification.architectures import architectures
from qualification.model_trial import harvest

architecture = architectures()[{subject!r}]
model = architecture.build({seed}).to({dtype}).train({training})
given = architecture.arguments(model, {seed}, labelled={training})
given = {{k: v.to({dtype}) if v.is_floating_point() else v for k, v in given.items()}}
print(model.config)
compiled = torch.compile(copy.deepcopy(model), backend="poot", dynamic={dynamic})
with torch.set_grad_enabled({training}):
    torch.manual_seed({seed})
    eager = list(harvest(model(**given)))
    torch.manual_seed({seed})
    ours = list(harvest(compiled(**given)))
for got, want in zip(ours, eager):
    print(tuple(want.shape), "largest difference:", (got - want).abs().max().item(), "of", want.abs().max().item())
'''


def reproducer(group: Group, index: int) -> str:
    return SCRIPT.format(
        case=group.case(index),
        subject=group.subject,
        seed=SEED,
        dtype=DTYPES[group.dtype],
        training=False,
        dynamic=True if group.mode == "dynamic" else None,
    )


SUITE = Suite("models", __doc__, scope, runs, reproducer, timeout=240)


def main(argv: list[str] | None = None) -> int:
    return sweep.main(SUITE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
