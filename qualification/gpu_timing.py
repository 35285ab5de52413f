"""Timing on a GPU: events around calls in a row, and paired rounds of several backends."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

from poot_torch.accuracy import error_against

BF16 = torch.bfloat16
Calls = list[Callable[[], object]]


def device_seconds(calls: Calls, seconds: float = 0.02) -> float:
    """Seconds a call on the device: events around calls in a row, that rotate over their inputs."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    count = len(calls)
    while True:
        begin.record()
        for i in range(count):
            calls[i % len(calls)]()
        end.record()
        end.synchronize()
        total = begin.elapsed_time(end) / 1e3
        if total >= seconds or count >= 4096:
            return total / count
        count *= 2


def paired(calls: dict[str, Calls], rounds: int = 7) -> dict[str, Any]:
    """Median seconds by name, and the ratios of each peer to poot round by round."""
    for each in calls.values():
        for call in each * 2:
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for r in range(rounds):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            times[name].append(device_seconds(calls[name]))
    out: dict[str, Any] = {"seconds": {name: statistics.median(t) for name, t in times.items()}}
    for name in names:
        if name != "poot":
            ratios = sorted(a / b for a, b in zip(times[name], times["poot"], strict=True))
            out[f"{name}/poot"] = [ratios[len(ratios) // 2], ratios[0], ratios[-1]]
    return out


def compiled(fn: Callable[..., Any], backend: str) -> Callable[..., Any]:
    """`backend`: poot (strict), inductor, or inductor with a mode behind a colon."""
    if backend == "poot":
        return torch.compile(fn, backend="poot", options={"strict": True})
    backend, _, mode = backend.partition(":")
    return torch.compile(fn, backend=backend, mode=mode or None)


def flat(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def worst(reference: Any, got: Any) -> float:
    """Largest relative error (root mean square) over the results."""
    return max(error_against(r, g).rms for r, g in zip(flat(reference), flat(got), strict=True))
