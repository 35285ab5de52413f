"""Models on a GPU, strict: error against float64 beside eager's, time and peak memory beside the default compiler.

The demo models are small enough for a float64 reference. The models of usual sizes are judged against eager
in bf16 and timed beside the default compiler, decoding also beside its modes with CUDA graphs.

    python -m qualification.gpu_models MODEL BACKEND...     # one model of usual size, as JSON
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import subprocess
import sys
import time
from typing import Any

import torch

import poot_torch
from poot_torch import demo_models
from poot_torch.accuracy import error_against
from qualification.gpu_first import cache_variables
from qualification.gpu_timing import BF16, Calls, compiled, paired, worst

STEPS_BETWEEN_RESETS = 256  # a decoding step moves on in its cache
CALLS = 16  # in a row of what begins anew each time
DECODE = "llama-1b-decode"
GRAPHS = "inductor:reduce-overhead"
AUTOTUNED = "inductor:max-autotune"
LEAST_SECONDS = 60.0  # without which the search of AUTOTUNED is not begun


def first_call(f: Any, instance: demo_models.Instance) -> tuple[Any, float]:
    instance.reset()
    start = time.perf_counter()
    value = f(*instance.args)
    torch.cuda.synchronize()
    return value, time.perf_counter() - start


def calls_of(f: Any, instance: demo_models.Instance, count: int) -> Calls:
    def first() -> None:
        instance.reset()
        f(*instance.args)

    return [first] + [lambda: f(*instance.args)] * (count - 1)


def run_model(case: demo_models.Case, dtype: torch.dtype, backends: list[str]) -> dict[str, Any]:
    out: dict[str, Any] = {"error": {}, "first_call_s": {}}
    reference = case.build(dtype, 0, True, device="cuda")()
    calls: dict[str, Calls] = {}
    errors = {}
    torch._dynamo.reset()
    for backend in backends:
        instance = case.build(dtype, 0, False, device="cuda")
        f = instance.fn if backend == "eager" else compiled(instance.fn, backend)
        try:
            value, out["first_call_s"][backend] = first_call(f, instance)
        except Exception as e:
            out.setdefault("failed", {})[backend] = f"{type(e).__name__}: {e}"[:900]
            continue
        errors[backend] = error_against(reference, value)
        out["error"][backend] = {"rms": errors[backend].rms, "max": errors[backend].max}
        if backend == "poot":
            out["report"] = poot_torch.last_report().to_json()["totals"]
            later = [error_against(reference, first_call(f, instance)[0]).rms for _ in range(6)]
            out["error in later calls"] = max(later)
            out["same"] = all(rms <= errors[backend].rms * 1.01 for rms in later)
        calls[backend] = [lambda f=f, i=instance: (i.reset(), f(*i.args))]
    if "poot" not in errors:
        return out
    if "eager" in errors:
        out["accurate"] = errors["poot"].within(errors["eager"], dtype)
    out.update(paired(calls, rounds=3))
    return out


def run_large(case: demo_models.Case, backends: list[str]) -> dict[str, Any]:
    """One model for all backends, in bf16."""
    torch._dynamo.reset()
    instance = case.build(BF16, 0, False, device="cuda")
    instance.reset()
    eager = instance.step(instance.fn)(*instance.args)
    out: dict[str, Any] = {"first_call_s": {}, "from eager": {}}
    calls: dict[str, Calls] = {}
    for backend in backends:
        f = instance.step(compiled(instance.fn, backend))
        try:
            value, out["first_call_s"][backend] = first_call(f, instance)
            out["from eager"][backend] = worst(eager, value)
            del value
            for _ in range(4):
                instance.reset()
                f(*instance.args)
            instance.reset()
            out["from eager"][backend] = max(out["from eager"][backend], worst(eager, f(*instance.args)))
        except Exception as e:
            out.setdefault("failed", {})[backend] = f"{type(e).__name__}: {e}"[:900]
            continue
        if backend == "poot":
            out["report"] = poot_torch.last_report().to_json()["totals"]
        calls[backend] = calls_of(f, instance, STEPS_BETWEEN_RESETS if case.name == DECODE else CALLS)
    if "poot" in calls:
        out.update(paired(calls, rounds=5))
    return out


def show(key: str, row: dict[str, Any]) -> None:
    for backend, why in row.get("failed", {}).items():
        print(f"  {key}: {backend} failed: {why}", flush=True)
    if "seconds" not in row:
        return
    times = "  ".join(f"{k} {v * 1e6:7.0f} us" for k, v in row["seconds"].items())
    rest = {k: row[k] for k in ("accurate", "same", "error", "from eager", "first_call_s") if k in row}
    print(f"  {key:20s} {times}  {rest}", flush=True)
    if "report" in row:
        print(f"    {row['report']}", flush=True)


def guarded(key: str, run: Any) -> dict[str, Any]:
    try:
        row = run()
        show(key, row)
    except Exception as e:
        row = {"failed": f"{type(e).__name__}: {e}"[:900]}
        print(f"  {key:20s} failed: {row['failed']}", flush=True)
    gc.collect()
    torch.cuda.empty_cache()
    return row


def section_models(args: argparse.Namespace) -> dict[str, Any]:
    out: dict[str, Any] = {}
    with torch.no_grad():
        for case in demo_models.CASES:
            for name, dtype in (("bf16", BF16), ("fp32", torch.float32)):
                if not args.models or case.name in args.models:
                    key = f"{case.name} {name}"
                    out[key] = guarded(key, lambda case=case, dtype=dtype: run_model(case, dtype, args.demo_backends))
    if not args.models:
        rows = list(out.values())
        out["all accurate"] = all(row.get("accurate", False) for row in rows)
    return out


def section_large(args: argparse.Namespace) -> dict[str, Any]:
    """On the caches of the section first, where it ran."""
    out: dict[str, Any] = {}
    with torch.no_grad():
        for case in demo_models.GPU_CASES:
            if not args.models or case.name in args.models:
                os.environ.update(cache_variables(args.caches, case.name))
                backends = ["inductor", *([GRAPHS] if case.name == DECODE else []), "poot"]
                out[case.name] = guarded(case.name, lambda c=case, b=backends: run_large(c, b))
    ratios = [r["inductor/poot"][0] for r in out.values() if "inductor/poot" in r]
    if ratios:
        out["geometric mean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return out


def section_best(args: argparse.Namespace) -> dict[str, Any]:
    """Decoding beside the default compiler's slowest mode to compile, in a process that is given up in time."""
    left = args.ends - time.perf_counter()
    if left < LEAST_SECONDS:
        return {"not run": f"{left:.0f} seconds are left"}
    command = [sys.executable, "-m", "qualification.gpu_models", DECODE, AUTOTUNED, "poot"]
    env = dict(os.environ, **cache_variables(args.caches, DECODE))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left, env=env)
    except subprocess.TimeoutExpired:
        return {"not run": f"not compiled in {left:.0f} seconds"}
    if done.returncode != 0:
        return {"failed": done.stderr[-900:]}
    row = json.loads(done.stdout.strip().splitlines()[-1])
    show(f"{DECODE}, best", row)
    return row


def main() -> int:
    name, *backends = sys.argv[1:]
    with torch.no_grad():
        print(json.dumps(run_large(demo_models.case(name), backends)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
