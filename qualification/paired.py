"""Paired timing: several callables in one process, in alternating blocks, so that a drift of the machine's speed
hits all of them alike. Ratios are taken round by round; the median and the 10th and 90th percentiles are kept."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable


@dataclasses.dataclass
class Paired:
    """Seconds a call by name, one entry a round (the median of the round's calls)."""

    rounds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, *peers: str) -> tuple[float, float, float]:
        """(median, p10, p90) over the rounds of the fastest peer's time / name's time: above 1, `name` is faster.

        The fastest peer is fixed by its median over all rounds, not picked anew in each.
        """
        peer = min(peers, key=self.median)
        ratios = sorted(p / t for p, t in zip(self.rounds[peer], self.rounds[name], strict=True))
        return statistics.median(ratios), quantile(ratios, 0.1), quantile(ratios, 0.9)


def quantile(ordered: list[float], q: float) -> float:
    """Linear interpolation between the two nearest ranks of an ascending list."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def measure(
    calls: dict[str, Callable[[], object]],
    *,
    rounds: int = 9,
    block_seconds: float = 0.15,
    between: Callable[[], None] = lambda: None,
) -> Paired:
    """Times each callable in alternating blocks of about `block_seconds`; the order rotates from round to round.

    `between` runs untimed before every call (it resets state that a call changes).
    """
    names = list(calls)
    for name in names:  # settle allocators and lazily built state
        for _ in range(3):
            between()
            calls[name]()
    result: dict[str, list[float]] = {name: [] for name in names}
    for r in range(rounds):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            result[name].append(_block(calls[name], block_seconds, between))
    return Paired(result)


def _block(call: Callable[[], object], seconds: float, between: Callable[[], None]) -> float:
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        between()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
