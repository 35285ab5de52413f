"""How values are judged that differ from eager's.

`DatabaseRule` finds them wrong when they lie outside PyTorch's own tolerance and their error against float64 exceeds
twice eager's plus one unit in the last place. Models have a rule of their own (`qualification.accuracy_rule`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import torch

from poot_torch.accuracy import error_against
from qualification.op_judge import Wrong

# Results whose values eager leaves to chance.
UNSPECIFIED = frozenset(
    (
        "empty",
        "empty_like",
        "empty_strided",
        "empty_permuted",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    )
)


class Rule(Protocol):
    """Judges the values of one result whose layout is right; raises Wrong. `reference` is the result at double
    precision, or None."""

    @property
    def tally(self) -> dict[str, int]:
        """Figures beside the verdict."""

    @property
    def unspecified(self) -> bool:
        """Whether eager leaves the values to chance; then they are not judged."""

    def values(self, name: str, got: torch.Tensor, want: torch.Tensor, reference: torch.Tensor | None) -> None: ...

    def finish(self) -> None:
        """After the last tensor of a case; raises Unsettled where more seeds may tell."""

    def fresh(self) -> Rule:
        """The rule as it was before the first tensor."""


class Unsettled(Wrong):
    """Errors that may be chance: of few numbers, or a little too large."""


def plain(t: torch.Tensor) -> torch.Tensor:
    t = t.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(t) if t.is_complex() else t


def unequal(got: torch.Tensor, want: torch.Tensor, rtol: float, atol: float) -> str:
    """What torch's own comparison says; empty where the two are close."""
    try:
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
    except AssertionError as e:
        return " ".join(str(e).split())
    return ""


def exact(t: torch.Tensor) -> bool:
    return not (t.is_floating_point() or t.is_complex())


def tolerance(info: Any, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol) of op_db's comparisons on the CPU at this dtype: the default, or what the entry overrides."""
    from torch.testing._comparison import default_tolerances
    from torch.testing._internal.common_device_type import toleranceOverride

    rtol, atol = default_tolerances(dtype)
    for info_decorator in info.decorators:
        for d in getattr(info_decorator, "decorators", [info_decorator]):
            scoped = getattr(info_decorator, "device_type", None) in (None, "cpu")
            named = getattr(info_decorator, "cls_name", None) in (None, "TestCommon")
            if isinstance(d, toleranceOverride) and dtype in d.d and scoped and named:
                rtol, atol = max(rtol, d.d[dtype].rtol), max(atol, d.d[dtype].atol)
    return rtol, atol


@dataclasses.dataclass(frozen=True)
class DatabaseRule:
    """For entries of PyTorch's databases, whose decorators override tolerances."""

    info: Any

    @property
    def tally(self) -> dict[str, int]:
        return {}

    @property
    def unspecified(self) -> bool:
        return getattr(self.info, "full_name", "") in UNSPECIFIED

    def values(self, name: str, got: torch.Tensor, want: torch.Tensor, reference: torch.Tensor | None) -> None:
        rtol, atol = (0.0, 0.0) if exact(want) else tolerance(self.info, want.dtype)
        message = unequal(got, want, rtol, atol)
        if not message:
            return
        if not exact(want) and reference is not None:
            judge = plain(reference).double()
            if judge.shape == plain(want).shape:
                ours, eager = error_against(judge, plain(got)), error_against(judge, plain(want))
                ulp = torch.finfo(want.dtype).eps * ours.scale
                if ours.max <= 2 * eager.max + ulp:
                    return
                message += f" Error {ours.max:.3g}, eager's {eager.max:.3g}."
        raise Wrong(f"{name}: {message}")

    def finish(self) -> None:
        pass

    def fresh(self) -> Rule:
        return self
