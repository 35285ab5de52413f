"""Arithmetic on values of one floating dtype, written as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..emitter import Emitter, Val


class Term:
    """A value whose operators and functions emit equations; numbers beside it take its dtype."""

    def __init__(self, e: Emitter, value: Val) -> None:
        self.e, self.value = e, value

    def _emit(self, op: str, *operands: Any) -> Term:
        dtype = self.value.dtype
        return Term(
            self.e, self.e.emit(op, *(o.value if isinstance(o, Term) else self.e.lit(o, dtype) for o in operands))
        )

    def __add__(self, other: Any) -> Term:
        return self._emit("add", self, other)

    def __radd__(self, other: Any) -> Term:
        return self._emit("add", other, self)

    def __sub__(self, other: Any) -> Term:
        return self._emit("sub", self, other)

    def __rsub__(self, other: Any) -> Term:
        return self._emit("sub", other, self)

    def __mul__(self, other: Any) -> Term:
        return self._emit("mul", self, other)

    def __rmul__(self, other: Any) -> Term:
        return self._emit("mul", other, self)

    def __truediv__(self, other: Any) -> Term:
        return self._emit("div", self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return self._emit("div", other, self)

    def __neg__(self) -> Term:
        return self._emit("neg", self)

    def __abs__(self) -> Term:
        return self._emit("abs", self)

    def function(self, op: str) -> Term:
        return self._emit(op, self)

    def is_(self, comparison: str, other: Any) -> Val:
        """Truth values of eq, ne, lt, le, gt or ge."""
        return self._emit(comparison, self, other).value

    def chosen(self, condition: Val, otherwise: Any) -> Term:
        """self where the condition holds."""
        other = otherwise.value if isinstance(otherwise, Term) else otherwise
        return Term(self.e, self.e.where(condition, self.value, other, self.value.dtype))

    def instead(self, condition: Val, number: float) -> Term:
        """self except where the condition holds, the number there."""
        return Term(self.e, self.e.where(condition, number, self.value, self.value.dtype))

    def polynomial(self, coefficients: Sequence[float]) -> Term:
        """Horner's scheme; the leading coefficient comes first."""
        total: Any = coefficients[0]
        for c in coefficients[1:]:
            total = self * total + c
        return total

    def chebyshev(self, coefficients: Sequence[float], negligible: float) -> Term:
        """Half of Clenshaw's sum for a series in self / 2, highest coefficient first. The highest that add up to less
        than `negligible` are left out."""
        first, left_out = 0, 0.0
        while left_out + abs(coefficients[first]) < negligible:
            left_out += abs(coefficients[first])
            first += 1
        before: Any = 0.0
        last: Any = 0.0
        total: Any = coefficients[first]
        for c in coefficients[first + 1 :]:
            before, last = last, total
            total = self * last - before + c
        return (total - before) * 0.5
