"""How a model's values are judged: the demo's rule over all of a case's tensors together.

Each tensor must have NaN and infinities where eager has them, and no error against float64 beyond 8 times eager's (or
64 units in the last place at the tensor's scale). Errors of all results, each divided by its tensor's scale, are then
pooled: root mean square and maximum at most 1.5 times eager's, or 2 units. A small pool is a matter of chance, so a
case that fails there is run again with other weights and arguments, up to five seeds in one pool.
"""

from __future__ import annotations

import dataclasses

import torch

from poot_torch.accuracy import error_against
from qualification.op_judge import Wrong
from qualification.rules import Rule, Unsettled, exact, plain, unequal

FACTOR, ULPS = 1.5, 2
GROSS_FACTOR, GROSS_ULPS = 8, 64


@dataclasses.dataclass
class _Pool:
    """Errors in units of the last place at each tensor's scale."""

    squares: float = 0.0
    count: int = 0
    largest: float = 0.0

    def add(self, rms: float, largest: float, count: int) -> None:
        self.squares += rms * rms * count
        self.count += count
        self.largest = max(self.largest, largest)

    @property
    def rms(self) -> float:
        return (self.squares / max(self.count, 1)) ** 0.5


@dataclasses.dataclass
class AccuracyRule:
    """Stateful: tensors of several seeds may be added before it is settled. Integers are equal; without a reference,
    values are within the square root of the type's precision."""

    ours: _Pool = dataclasses.field(default_factory=_Pool)
    eager: _Pool = dataclasses.field(default_factory=_Pool)
    unspecified = False

    def fresh(self) -> Rule:
        return AccuracyRule()

    def values(self, name: str, got: torch.Tensor, want: torch.Tensor, reference: torch.Tensor | None) -> None:
        if exact(want):
            if not torch.equal(got, want):
                raise Wrong(f"{name}: {unequal(got, want, 0, 0)}")
            return
        got, want = plain(got), plain(want)
        finite = want.isfinite()
        if not torch.equal(got.isnan(), want.isnan()) or not torch.equal(got.isfinite(), finite):
            raise Wrong(f"{name}: {int((~got.isfinite()).sum())} not finite, eager {int((~finite).sum())}")
        judge = (want if reference is None else plain(reference)).double()
        finite = finite & judge.isfinite()
        if not bool(finite.any()):
            return
        self._finite(name, got[finite], want[finite], judge[finite], reference is not None)

    def _finite(self, name: str, got: torch.Tensor, want: torch.Tensor, judge: torch.Tensor, known: bool) -> None:
        ours, eager = error_against(judge, got), error_against(judge, want)
        eps = torch.finfo(want.dtype).eps
        unit = eps * ours.scale
        text = f"{name}: error {ours.max:.3g}, eager's {eager.max:.3g}, scale {ours.scale:.3g}"
        if not known:
            if ours.max > eps**0.5 * ours.scale:
                raise Wrong(f"{text}; no float64 reference")
        elif ours.max > max(GROSS_FACTOR * eager.max, GROSS_ULPS * unit):
            raise Wrong(text)
        elif name.startswith("result") and eager.max < 8 * eps**0.5 * ours.scale:
            # Otherwise eager's values are noise, such as a gradient that is zero in theory.
            self.ours.add(ours.rms / unit, ours.max / unit, got.numel())
            self.eager.add(eager.rms / unit, eager.max / unit, want.numel())

    def finish(self) -> None:
        rms, largest = max(FACTOR * self.eager.rms, ULPS), max(FACTOR * self.eager.largest, ULPS)
        if self.ours.rms > rms or self.ours.largest > largest:
            raise Unsettled(
                f"results: error {self.ours.rms:.3g} ulp (maximum {self.ours.largest:.3g}), eager's "
                f"{self.eager.rms:.3g} ({self.eager.largest:.3g}), over {self.ours.count} numbers"
            )
