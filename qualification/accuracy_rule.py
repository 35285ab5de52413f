"""How a model's values are judged against float64: three bounds, all of them to be kept.

1. That of an operator's result: a tensor outside torch's own tolerance for its dtype has no error above twice eager's
   largest plus one unit in the last place at the tensor's scale.
2. Tolerances are absolute, so that a small gradient passes any: no error exceeds 8 times eager's or 64 units.
3. The demo's rule over all results together: errors in units at each tensor's scale, root mean square and maximum at
   most 1.5 times eager's, or 2 units.

NaN and infinities stand where eager has them; integers are equal. 1 and 3 compare two samples of rounding noise, at
times of few numbers: all gradients of CLIP inherit the error of four cosines, and of its pool over seeds half the
squares are one seed's. A case outside them is run again with other weights and arguments and judged once more, over
sixteen seeds together: 1 by the median of a tensor's largest errors, 3 by one pool.

`tally` counts beside the verdict the tensors outside the demo's rule taken alone: poot's error above 1.5 times eager's
and 2 units, and the same with the sides changed. Chance puts as many on either side.
"""

from __future__ import annotations

import collections
import dataclasses
import statistics

import torch

from poot_torch.accuracy import ErrorPair, error_against
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
class _Each:
    """The largest errors of one tensor, in units, under each seed."""

    ours: list[float] = dataclasses.field(default_factory=list)
    eager: list[float] = dataclasses.field(default_factory=list)
    outside: bool = False  # of the tolerance, under some seed

    def worse(self) -> bool:
        return self.outside and statistics.median(self.ours) > 2 * statistics.median(self.eager) + 1


@dataclasses.dataclass
class AccuracyRule:
    """Stateful: tensors of several seeds may be added before it is settled. Without a reference, values are within the
    square root of the type's precision."""

    ours: _Pool = dataclasses.field(default_factory=_Pool)
    eager: _Pool = dataclasses.field(default_factory=_Pool)
    each: dict[str, _Each] = dataclasses.field(default_factory=lambda: collections.defaultdict(_Each))
    tally: dict[str, int] = dataclasses.field(default_factory=collections.Counter)
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
        got, want = got[finite], want[finite]
        ours, eager = error_against(judge[finite], got), error_against(judge[finite], want)
        if reference is None:
            self._unjudged(name, ours, want.dtype)
        else:
            self._judged(name, ours, eager, got, want)

    def _unjudged(self, name: str, ours: ErrorPair, dtype: torch.dtype) -> None:
        self.tally["without_reference"] += 1
        if ours.max > torch.finfo(dtype).eps ** 0.5 * ours.scale:
            raise Wrong(f"{name}: error {ours.max:.3g}, scale {ours.scale:.3g}; no float64 reference")

    def _judged(self, name: str, ours: ErrorPair, eager: ErrorPair, got: torch.Tensor, want: torch.Tensor) -> None:
        eps = torch.finfo(want.dtype).eps
        unit = eps * ours.scale or torch.finfo(want.dtype).tiny
        if ours.max > max(GROSS_FACTOR * eager.max, GROSS_ULPS * unit):
            raise Wrong(f"{name}: error {ours.max:.3g}, eager's {eager.max:.3g}, scale {ours.scale:.3g}")
        known = self.each[name]
        known.ours.append(ours.max / unit)
        known.eager.append(eager.max / unit)
        known.outside |= bool(unequal(got, want, *torch.testing._comparison.default_tolerances(want.dtype)))
        self.tally["tensors"] += 1
        self.tally["beyond"] += not ours.within(eager, want.dtype)
        self.tally["eager_beyond"] += not eager.within(ours, want.dtype)
        if name.startswith("result") and eager.max < 8 * eps**0.5 * ours.scale:
            # Otherwise eager's values are noise, such as a gradient that is zero in theory.
            self.ours.add(ours.rms / unit, ours.max / unit, got.numel())
            self.eager.add(eager.rms / unit, eager.max / unit, want.numel())

    def finish(self) -> None:
        worse = {n: e for n, e in self.each.items() if e.worse()}
        if worse:
            name, e = max(worse.items(), key=lambda x: statistics.median(x[1].ours))
            raise Unsettled(
                f"{len(worse)} tensors outside the tolerance with more than twice eager's error, the worst "
                f"{name}: {statistics.median(e.ours):.3g} ulp, eager's {statistics.median(e.eager):.3g}"
            )
        rms, largest = max(FACTOR * self.eager.rms, ULPS), max(FACTOR * self.eager.largest, ULPS)
        if self.ours.rms > rms or self.ours.largest > largest:
            raise Unsettled(
                f"results: error {self.ours.rms:.3g} ulp (maximum {self.ours.largest:.3g}), eager's "
                f"{self.eager.rms:.3g} ({self.eager.largest:.3g}), over {self.ours.count} numbers"
            )
