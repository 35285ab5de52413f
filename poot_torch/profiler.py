"""How long each kernel of a compiled function takes, how many bytes it must move in that time, and what share of the
machine's copy bandwidth that is.

    profile = poot_torch.profile(fn)(*args)
    print(profile)                # a table: the slowest kernels first
    profile.to_json()             # the same as plain data

Kernels run one by one while they are profiled, each in a range of torch.profiler's, whose times these are: on a GPU
what the device spent on the kernels of a launch, on a CPU what the call took.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from . import _C
from .errors import PootError

_LAUNCH = re.compile(r"poot::.* #(\d+)$", re.S)
_COPIED_BYTES = 1 << 28


@dataclasses.dataclass
class Row:
    """All launches of one kernel, or of one library or eager operator, that came from the same FX nodes."""

    name: str
    kind: str  # generated, library or fallback
    nodes: list[str]
    sources: list[str]
    launches: int = 0  # a call
    seconds: float = 0.0  # of these launches
    bytes: int = 0  # that they must read and write, each once

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclasses.dataclass
class Profile:
    """One call of the function, the median of several; rows by time, the longest first."""

    device: str
    copy_bytes_per_second: float  # of a large copy, bytes read and written: the device's limit
    rows: list[Row]

    @property
    def seconds(self) -> float:
        return sum(r.seconds for r in self.rows)

    def share(self, row: Row) -> float:
        """Of the copy bandwidth. Above 1: what was read lay in caches."""
        return row.bytes_per_second / self.copy_bytes_per_second

    def to_json(self) -> dict[str, Any]:
        rows = [dataclasses.asdict(r) | {"share_of_copy_bandwidth": self.share(r)} for r in self.rows]
        return {
            "device": self.device,
            "copy_bytes_per_second": self.copy_bytes_per_second,
            "seconds": self.seconds,
            "rows": rows,
        }

    def save(self, path: str | pathlib.Path) -> None:
        pathlib.Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n")

    def __str__(self) -> str:
        head = (
            f"{self.seconds * 1e6:.1f} us in {sum(r.launches for r in self.rows)} launches on {self.device}; "
            f"copying moves {self.copy_bytes_per_second / 1e9:.1f} GB/s"
        )
        lines = [head, "     us    %  launches     GB/s  of copy  kernel"]
        for r in self.rows:
            lines.append(
                f"{r.seconds * 1e6:7.1f} {100 * r.seconds / (self.seconds or 1):4.0f} {r.launches:9d} "
                f"{r.bytes_per_second / 1e9:8.1f}    {self.share(r):5.2f}  {r.name}"
                + ("" if r.kind == "generated" else f" ({r.kind})")
            )
            lines += [f"{'':43}{source}" for source in r.sources]
        return "\n".join(lines)


@functools.cache
def copy_bandwidth(device: str) -> float:
    """Bytes read and written a second by a copy of 256 MiB; the best of several."""
    source = torch.zeros(_COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(5):
        _wait(device)
        start = time.perf_counter()
        for _ in range(4):
            target.copy_(source)
        _wait(device)
        best = min(best, (time.perf_counter() - start) / 4)
    return 2 * _COPIED_BYTES / best


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


def _device_of(values: Any) -> str:
    """Where the first tensor lies that is not on the CPU."""
    for t in torch.utils._pytree.tree_leaves(values):
        if isinstance(t, torch.Tensor) and t.device.type != "cpu":
            return str(t.device)
    return "cpu"


def _seconds(event: Any, device: str) -> float:
    microseconds = event.cpu_time_total if device == "cpu" else event.device_time_total
    return float(microseconds) * 1e-6


def _measure(call: Callable[[], Any], rounds: int, device: str) -> tuple[dict[int, list[float]], list[dict[str, Any]]]:
    """Seconds of each launch in each call that made it, by its number in the table that comes with them."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    times: dict[int, list[float]] = {}
    with torch.profiler.profile(activities=activities) as recorded:
        _C.begin_launch_profile()
        try:
            for _ in range(rounds):
                call()
            _wait(device)
        finally:
            table = _C.end_launch_profile()
    for event in recorded.events():
        found = _LAUNCH.fullmatch(event.name)
        if found:
            times.setdefault(int(found[1]), []).append(_seconds(event, device))
    return times, table


def _rows(times: dict[int, list[float]], table: list[dict[str, Any]], rounds: int) -> list[Row]:
    rows: dict[tuple[Any, ...], Row] = {}
    for number, seconds in times.items():
        entry = table[number]
        key = (entry["name"], entry["class"], tuple(entry["nodes"]))
        row = rows.setdefault(key, Row(entry["name"], entry["class"], entry["nodes"], entry["sources"]))
        count = max(round(len(seconds) / rounds), 1)
        row.launches += count
        row.seconds += count * statistics.median(seconds)
        row.bytes += count * entry["bytes"]
    return sorted(rows.values(), key=lambda r: -r.seconds)


def profile(fn: Callable[..., Any], *, rounds: int = 5, **options: Any) -> Callable[..., Profile]:
    """`profile(fn)(*args)` compiles fn, calls it a few times, and tells where the time of a call goes.

    `options` are those of the backend. Launches that a call makes in eager outside poot's graphs (graph breaks, frames
    that Dynamo left alone) are not in the table. Raises PootError if the function ran no compiled graph.
    """
    from .backend import poot  # which imports this package

    compiled = torch.compile(fn, backend=poot, options=options or None)

    def run(*args: Any, **kwargs: Any) -> Profile:
        for _ in range(2):
            result = compiled(*args, **kwargs)
        device = _device_of([args, kwargs, result])
        times, table = _measure(lambda: compiled(*args, **kwargs), rounds, device)
        if not times:
            raise PootError("profile: the function ran no graph that poot compiled")
        return Profile(device, copy_bandwidth(device), _rows(times, table, rounds))

    return run
