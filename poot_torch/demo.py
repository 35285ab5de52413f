"""The demo: real architectures, each eager and compiled in strict mode, in one table.

    python -m poot_torch.demo                            # what `make demo` ends in
    python -m poot_torch.demo --models bert vit --dtypes bf16 --compare inductor --json demo.json

Errors are against float64 on the same rounded weights. "First call" is tracing, compiling and the first run in
this process; "steady" is the median of later calls, taken in turns with eager's.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import poot_torch

from .accuracy import error_against
from .demo_models import CASES, Case, case

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PEERS = ("inductor",)
WIDTH = 150  # columns of the table


def steady(calls: dict[str, Callable[[], Any]], reset: Callable[[], None], seconds: float) -> dict[str, float]:
    """Median seconds a call of each, taken in turns for about `seconds` in all."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while len(next(iter(times.values()))) < 5 or time.perf_counter() < end:
        for name, call in calls.items():
            reset()
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def run_case(which: Case, dtype: torch.dtype, peers: list[str], seconds: float, tell: Callable[[str], None]) -> dict:
    """All figures of one model at one dtype, as plain data."""
    tell("float64 reference")
    reference = which.build(dtype, 0, True)()
    backends = ["eager", *peers, "poot"]
    instances = {name: which.build(dtype, 0, False) for name in backends}
    calls: dict[str, Callable[[], torch.Tensor]] = {}
    row: dict[str, Any] = {"first_call_s": {}, "error": {}}
    for name in backends:
        instance = instances[name]
        fn = instance.fn
        if name != "eager":
            tell(f"{name}: tracing and compiling")
            torch._dynamo.reset()
            fn = torch.compile(fn, backend=name, options={"strict": True} if name == "poot" else None)
        calls[name] = functools.partial(fn, *instance.args)
        instance.reset()
        start = time.perf_counter()
        value = calls[name]()
        if name != "eager":
            row["first_call_s"][name] = time.perf_counter() - start
        error = error_against(reference, value)
        row["error"][name] = {"rms": error.rms, "max": error.max}
        if name == "eager":
            eager_error = error
        elif name == "poot":
            row["accurate"] = error.within(eager_error, dtype)
            row["report"] = poot_torch.last_report().to_json()["totals"]
    tell("steady state")

    def reset() -> None:
        for instance in instances.values():
            instance.reset()

    row["steady_s"] = steady(calls, reset, seconds)
    return row


def table_of(rows: list[dict], peers: list[str]) -> Table:
    table = Table(title="poot on the CPU, strict mode", caption=f"{torch.get_num_threads()} threads")
    for column in ("model", "dtype", "error eager", "error poot", "first call", "eager", *peers, "poot", "speed-up"):
        table.add_column(column, justify="left" if column in ("model", "dtype") else "right")
    for column in ("dispatches", "generated / library / fallback"):
        table.add_column(column, justify="right")
    for row in rows:
        totals, steady_s = row["report"], row["steady_s"]
        classes = totals["classes"]
        table.add_row(
            row["model"],
            row["dtype"],
            f"{row['error']['eager']['rms']:.1e}",
            f"{row['error']['poot']['rms']:.1e}" + ("" if row["accurate"] else " !"),
            f"{row['first_call_s']['poot']:.2f} s",
            f"{steady_s['eager'] * 1e3:.2f} ms",
            *(f"{steady_s[p] * 1e3:.2f} ms" for p in peers),
            f"{steady_s['poot'] * 1e3:.2f} ms",
            f"{steady_s['eager'] / steady_s['poot']:.2f}x",
            f"{totals['dispatches_before']} -> {totals['dispatches_after']}",
            f"{classes['generated']} / {classes['library']} / {classes['fallback']}",
        )
    return table


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [c.name for c in CASES]
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--compare", nargs="+", choices=PEERS, default=[], help="peers beside eager")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each steady-state measurement")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args(argv)
    warnings.filterwarnings("ignore")
    console = Console()
    if console.width < WIDTH:  # a table that wraps every cell helps nobody
        console = Console(width=WIDTH)
    rows = []
    with (
        torch.no_grad(),
        Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
        ) as progress,
    ):
        task = progress.add_task("", total=None)
        for name in args.models:
            for dtype in args.dtypes:

                def tell(step: str, label: str = f"{name} {dtype}") -> None:
                    progress.update(task, description=f"{label}: {step}")

                row = run_case(case(name), DTYPES[dtype], args.compare, args.seconds, tell)
                rows.append({"model": name, "dtype": dtype, **row})
    console.print(table_of(rows, args.compare))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    wrong = [f"{r['model']} {r['dtype']}" for r in rows if not r["accurate"]]
    if wrong:
        console.print(f"[red]less accurate than eager allows: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
