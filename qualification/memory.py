"""Peak memory of one steady call beside its arguments, outputs retained: poot against PyTorch's default compiler.

    python -m qualification.memory
    python -m qualification.memory --models bert --rows --dtypes bf16 --json out.json
    python -m qualification.memory --models --rows softmax --sizes full transposed

Of the models of the demo and the memory-bound rows of `qualification.memory_bound`, these at full size unless said.
Counted by torch's allocator hooks: everything that is allocated during the call and alive at the worst moment, what
libraries return included; what poot's arenas keep between calls is added in full, and its output pool is off.
Scratch memory that libraries take past the allocator counts for neither. Gate: none needs more than under the default
compiler.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import sys
from collections.abc import Callable
from unittest import mock

import torch

from poot_torch import backend, demo_models
from qualification.bench import DTYPES
from qualification.memory_bound import compiled
from qualification.memory_bound_rows import ROWS, SIZES, Row

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


def steady_peak(make: Callable[[], Callable[[], object]]) -> int:
    """Peak of the call that `make` compiles, once it is warm, with the arenas of the graphs that poot makes for it."""
    torch._dynamo.reset()
    made = []
    compile_graph = backend._compile

    def record(*args, **kwargs):
        made.append(compile_graph(*args, **kwargs))
        return made[-1]

    call = make()
    with mock.patch.object(backend, "_compile", record):
        for _ in range(3):
            call()
    return peak_of_call(call) + sum(graph.kept_bytes for graph in made)


def model_call(case: demo_models.Case, dtype: torch.dtype, name: str) -> Callable[[], object]:
    instance = case.build(dtype, 0, False)
    options = {"strict": True, "output_pool": False} if name == "poot" else None
    fn = torch.compile(instance.fn, backend=name, options=options)

    def call() -> object:
        instance.reset()
        return fn(*instance.args)

    return call


def row_call(row: Row, size: str, dtype: torch.dtype, name: str) -> Callable[[], object]:
    inputs, step = row.make(size, dtype, 0), compiled(row, name, output_pool=False)
    return lambda: step(inputs)


def measure(name: str, dtype: str, make: Callable[[str], Callable[[], object]]) -> dict:
    """The peaks of what `make` compiles with a backend; prints them."""
    row = {"name": name, "dtype": dtype, "bytes": {"poot": steady_peak(lambda: make("poot"))}}
    try:
        row["bytes"]["inductor"] = steady_peak(lambda: make("inductor"))
    except Exception as e:
        print(f"inductor does not run here: {type(e).__name__}: {str(e).splitlines()[0]}")
    figures = "  ".join(f"{k} {v / 2**20:8.2f} MiB" for k, v in row["bytes"].items())
    if "inductor" in row["bytes"]:
        row["ratio"] = row["bytes"]["poot"] / row["bytes"]["inductor"]
        figures += f"  poot/inductor {row['ratio']:.2f}"
    print(f"{name:34s} {dtype}  {figures}", flush=True)
    return row


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [c.name for c in demo_models.CASES]
    parser.add_argument("--models", nargs="*", choices=names, default=names)
    parser.add_argument("--rows", nargs="*", choices=[r.name for r in ROWS], default=[r.name for r in ROWS])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["full"])
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args(argv)
    rows = []
    for dtype in args.dtypes:
        for model in map(demo_models.case, args.models):
            with torch.no_grad():
                rows.append(measure(model.name, dtype, functools.partial(model_call, model, DTYPES[dtype])))
        for row in (row for row in ROWS if row.name in args.rows):
            for size in (size for size in row.sizes() if size in args.sizes):
                with torch.set_grad_enabled(row.backward):
                    make = functools.partial(row_call, row, size, DTYPES[dtype])
                    rows.append(measure(f"{row.name} {size}", dtype, make))
    if args.json:
        args.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1))
    failed = [r for r in rows if r.get("ratio", 0.0) > GATE]
    for r in failed:
        print(f"above the gate: {r['name']} {r['dtype']}: {r['ratio']:.2f}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
