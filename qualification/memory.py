"""Peak memory of one steady call beside its arguments, outputs retained: poot against PyTorch's default compiler.

    python -m qualification.memory
    python -m qualification.memory --models bert --dtypes bf16 --json out.json

Counted by torch's allocator hooks: everything that is allocated during the call and alive at the worst moment, what
libraries return included; what poot's arenas keep between calls is added in full, and its output pool is off.
Scratch memory that libraries take past the allocator counts for neither. Gate: no model needs more than under the
default compiler.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Callable
from unittest import mock

import torch

from poot_torch import backend, demo_models
from qualification.bench import DTYPES

GATE = 1.0  # poot's peak against the default compiler's


def peak_of_call(call: Callable[[], object]) -> int:
    """Bytes allocated from torch's CPU allocator during the call, at the worst moment."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = call()
    live = worst = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU:
            live += event.nbytes()
            worst = max(worst, live)
    del result
    return worst


def peak(case: demo_models.Case, dtype: torch.dtype, name: str) -> int:
    torch._dynamo.reset()
    made = []
    make = backend._compile

    def record(*args, **kwargs):
        made.append(make(*args, **kwargs))
        return made[-1]

    instance = case.build(dtype, 0, False)
    options = {"strict": True, "output_pool": False} if name == "poot" else None
    fn = torch.compile(instance.fn, backend=name, options=options)

    def call() -> object:
        instance.reset()
        return fn(*instance.args)

    with mock.patch.object(backend, "_compile", record):
        for _ in range(3):
            call()
    return peak_of_call(call) + sum(graph.kept_bytes for graph in made)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [c.name for c in demo_models.CASES]
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args(argv)
    rows = []
    for name in args.models:
        for dtype in args.dtypes:
            case = demo_models.case(name)
            with torch.no_grad():
                row = {"model": name, "dtype": dtype, "bytes": {"poot": peak(case, DTYPES[dtype], "poot")}}
                try:
                    row["bytes"]["inductor"] = peak(case, DTYPES[dtype], "inductor")
                except Exception as e:
                    print(f"inductor does not run here: {type(e).__name__}: {str(e).splitlines()[0]}")
            figures = "  ".join(f"{k} {v / 2**20:8.2f} MiB" for k, v in row["bytes"].items())
            if "inductor" in row["bytes"]:
                row["ratio"] = row["bytes"]["poot"] / row["bytes"]["inductor"]
                figures += f"  poot/inductor {row['ratio']:.2f}"
            print(f"{name:14s} {dtype}  {figures}", flush=True)
            rows.append(row)
    if args.json:
        args.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1))
    failed = [r for r in rows if r.get("ratio", 0.0) > GATE]
    for r in failed:
        print(f"above the gate: {r['model']} {r['dtype']}: {r['ratio']:.2f}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
