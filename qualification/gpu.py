"""Everything that needs an NVIDIA GPU, in one run under eight minutes; figures as JSON.

    python -m qualification.gpu --json out.json [--unit build/poot_unit] [--sections rows models]

    devices   the conformance suite over the real driver (the C++ test binary)
    tests     the torch tests that apply, with tensors on the GPU
    models    the demo models, strict: error against float64 beside eager's, time beside eager and the default compiler
    rows      memory-bound rows in bf16: time and bandwidth beside the default compiler, error against float64
    calls     host time of a call of two operators; launches of a long chain
    first     first call of two models in fresh processes, cold and warm

A section that fails is recorded with its error and does not stop the others.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

import poot_torch
from poot_torch import demo_models
from poot_torch.accuracy import error_against
from qualification import memory_bound_rows as rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
BF16 = torch.bfloat16
Calls = list[Callable[[], object]]


# ---- timing


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


def compiled(fn: Callable[..., Any], backend: str, **options: Any) -> Callable[..., Any]:
    if backend == "poot":
        return torch.compile(fn, backend="poot", options={"strict": True, **options})
    return torch.compile(fn, backend=backend)


def flat(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def worst(reference: Any, got: Any) -> float:
    """Largest relative error (root mean square) over the results."""
    return max(error_against(r, g).rms for r, g in zip(flat(reference), flat(got), strict=True))


# ---- rows


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=BF16)


def table() -> dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]], int]]:
    """name -> (function, inputs, bytes that a call must move)."""
    n = 8192
    d = 4096

    def rope() -> tuple[torch.Tensor, ...]:
        q, k = noise(4, 32, d, 128), noise(4, 32, d, 128)
        return q, k, noise(d, 128), noise(d, 128)

    return {
        "pointwise": (rows.pointwise, lambda: (noise(n, n), noise(n, n)), 3 * n * n * 2),
        "residual-rms-norm": (
            rows.residual_rms_norm,
            lambda: (noise(16384, d), noise(16384, d), noise(d)),
            4 * 16384 * d * 2,
        ),
        "layer-norm-gelu": (rows.layer_norm_gelu, lambda: (noise(16384, d), noise(d), noise(d)), 2 * 16384 * d * 2),
        "softmax-32768": (rows.scaled_softmax, lambda: (noise(d, 32768),), 2 * d * 32768 * 2),
        "softmax-262144": (rows.scaled_softmax, lambda: (noise(512, 262144),), 2 * 512 * 262144 * 2),
        "cross-entropy": (
            rows.cross_entropy,
            lambda: (noise(d, 128256), torch.randint(0, 128256, (d,), device="cuda")),
            d * 128256 * 2,
        ),
        "rope": (rows.rotate_half, rope, 4 * 4 * 32 * d * 128 * 2),
        "column-sum": (lambda x: x.sum(0), lambda: (noise(16384, n),), 16384 * n * 2),
        "column-sum-narrow": (lambda x: x.float().sum(0), lambda: (noise(1 << 20, 64),), (1 << 20) * 64 * 2),
        "sum-all": (lambda x: x.float().sum(), lambda: (noise(n, n),), n * n * 2),
        "transpose-add": (lambda x, y: x.t() + y, lambda: (noise(n, n), noise(n, n)), 3 * n * n * 2),
    }


def wide_reference(fn: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor] | None:
    """fn in float64, or None where it does not fit."""
    try:
        return flat(fn(*(t.double() if t.is_floating_point() else t for t in inputs)))
    except torch.cuda.OutOfMemoryError:
        return None


def run_row(name: str) -> dict[str, Any]:
    fn, make, bytes_moved = table()[name]
    torch._dynamo.reset()
    sets = [make() for _ in range(3)]
    calls: dict[str, Calls] = {}
    out: dict[str, Any] = {"bytes": bytes_moved, "error": {}}
    reference = wide_reference(fn, sets[0])
    for backend in ("inductor", "poot"):
        f = compiled(fn, backend)
        try:
            start = time.perf_counter()
            got = f(*sets[0])
            torch.cuda.synchronize()
            out.setdefault("first_call_s", {})[backend] = time.perf_counter() - start
            if reference is not None:
                out["error"][backend] = worst(reference, got)
        except Exception as e:
            out.setdefault("failed", {})[backend] = f"{type(e).__name__}: {e}"[:600]
            continue
        calls[backend] = [lambda s=s, f=f: f(*s) for s in sets]
    if reference is not None:
        out["error"]["eager"] = worst(reference, fn(*sets[0]))
    del reference
    with torch.no_grad():
        out.update(paired(calls))
    out["GB/s"] = {k: bytes_moved / s / 1e9 for k, s in out["seconds"].items()}
    return out


def section_rows(_: argparse.Namespace) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in table():
        try:
            with torch.no_grad():
                out[name] = run_row(name)
            speeds = "  ".join(f"{k} {v:6.0f}" for k, v in out[name]["GB/s"].items())
            ratio = out[name].get("inductor/poot", [float("nan")])[0]
            print(f"  {name:20s} GB/s {speeds}  x{ratio:.2f}  error {out[name]['error']}", flush=True)
            if "failed" in out[name]:
                print("   ", out[name]["failed"], flush=True)
        except Exception as e:
            out[name] = {"failed": f"{type(e).__name__}: {e}"[:600]}
            print(f"  {name:20s} failed: {out[name]['failed'][:300]}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    ratios = [r["inductor/poot"][0] for r in out.values() if "inductor/poot" in r]
    if ratios:
        out["geometric mean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return out


# ---- models


def run_model(case: demo_models.Case, dtype: torch.dtype) -> dict[str, Any]:
    out: dict[str, Any] = {"error": {}, "first_call_s": {}}
    reference = case.build(dtype, 0, True, device="cuda")()
    calls: dict[str, Calls] = {}
    errors = {}
    for backend in ("eager", "inductor", "poot"):
        torch._dynamo.reset()
        instance = case.build(dtype, 0, False, device="cuda")
        f = instance.fn if backend == "eager" else compiled(instance.fn, backend)
        instance.reset()
        start = time.perf_counter()
        try:
            value = f(*instance.args)
            torch.cuda.synchronize()
        except Exception as e:
            out.setdefault("failed", {})[backend] = f"{type(e).__name__}: {e}"[:900]
            continue
        out["first_call_s"][backend] = time.perf_counter() - start
        errors[backend] = error_against(reference, value)
        out["error"][backend] = {"rms": errors[backend].rms, "max": errors[backend].max}
        if backend == "poot":
            out["report"] = poot_torch.last_report().to_json()["totals"]
        calls[backend] = [lambda f=f, i=instance: (i.reset(), f(*i.args))]
    if "poot" not in errors:
        return out
    if "eager" in errors:
        out["accurate"] = errors["poot"].within(errors["eager"], dtype)
    out.update(paired(calls, rounds=5))
    return out


def section_models(args: argparse.Namespace) -> dict[str, Any]:
    out: dict[str, Any] = {}
    with torch.no_grad():
        for case in demo_models.CASES:
            for name, dtype in (("bf16", BF16), ("fp32", torch.float32)):
                if args.models and case.name not in args.models:
                    continue
                key = f"{case.name} {name}"
                try:
                    row = out[key] = run_model(case, dtype)
                    for backend, why in row.get("failed", {}).items():
                        print(f"  {key}: {backend} failed: {why}", flush=True)
                    if "seconds" not in row:
                        continue
                    times = "  ".join(f"{k} {v * 1e6:7.0f} us" for k, v in row["seconds"].items())
                    print(f"  {key:20s} {times}  accurate {row.get('accurate')}  {row['error']}", flush=True)
                    if "report" in row:
                        print(f"    {row['report']}", flush=True)
                except Exception as e:
                    out[key] = {"failed": f"{type(e).__name__}: {e}"[:900]}
                    print(f"  {key:20s} failed: {out[key]['failed']}", flush=True)
    return out


# ---- calls


def host_seconds(call: Callable[[], object], n: int = 300) -> float:
    torch.cuda.synchronize()
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(n):
            call()
        best = min(best, (time.perf_counter() - start) / n)
        torch.cuda.synchronize()
    return best


def section_calls(_: argparse.Namespace) -> dict[str, Any]:
    x = torch.randn(64, 64, device="cuda")
    out: dict[str, Any] = {"two operators, host us a call": {}}
    with torch.no_grad():
        for backend in ("inductor", "poot"):
            torch._dynamo.reset()
            f = compiled(lambda a: torch.relu(a * 2), backend)
            for _ in range(5):
                f(x)
            out["two operators, host us a call"][backend] = host_seconds(lambda f=f: f(x)) * 1e6
        torch._dynamo.reset()

        def chain(a: torch.Tensor) -> torch.Tensor:
            for _ in range(150):  # two kernels each: the reduction ends one
                a = a - a.sum(0, keepdim=True) * 1e-3
            return a

        f = compiled(chain, "poot")
        for _ in range(5):
            f(x)
        kernels = poot_torch.last_report().to_json()["totals"]["dispatches_after"]
        host = host_seconds(lambda: f(x), 20)
        out["chain"] = {
            "kernels": kernels,
            "host us a kernel": host * 1e6 / max(kernels, 1),
            "device us a kernel": device_seconds([lambda: f(x)]) * 1e6 / max(kernels, 1),
        }
    print(f"  {out}", flush=True)
    return out


# ---- first call

FIRST = """
import json, sys, time
import torch
from poot_torch import demo_models
backend, name = sys.argv[1:3]
instance = demo_models.case(name).build(torch.bfloat16, 0, False, device="cuda")
torch.cuda.synchronize()
with torch.no_grad():
    f = torch.compile(instance.fn, backend=backend)
    instance.reset()
    start = time.perf_counter()
    f(*instance.args)
    torch.cuda.synchronize()
    print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def section_first(args: argparse.Namespace) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in args.first:
        for backend in ("poot", "inductor", "aot_eager"):
            with tempfile.TemporaryDirectory() as folder:
                env = dict(os.environ, POOT_CACHE_DIR=f"{folder}/poot", TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor")
                env.update(TRITON_CACHE_DIR=f"{folder}/triton", CUDA_CACHE_PATH=f"{folder}/cuda")
                for kind in ("cold", "warm"):
                    done = subprocess.run(
                        [sys.executable, "-c", FIRST, backend, name],
                        env=env,
                        capture_output=True,
                        text=True,
                        timeout=120,
                    )
                    key = f"{name} {backend} {kind}"
                    last = done.stdout.strip().splitlines()
                    out[key] = json.loads(last[-1])["seconds"] if done.returncode == 0 else done.stderr[-500:]
                    print(f"  {key}: {out[key]}", flush=True)
    return out


# ---- tests


def section_devices(args: argparse.Namespace) -> dict[str, Any]:
    done = subprocess.run(
        [str(args.unit), "--gtest_filter=*DeviceConformance*:Cuda*:GpuModule*"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    failed = re.findall(r"\[  FAILED  \] (\S+)", done.stdout)
    ran = re.search(r"(\d+) tests from", done.stdout)
    print(f"  {ran and ran[1]} tests, failed: {failed}", flush=True)
    return {"tests": int(ran[1]) if ran else 0, "real device": "/Cuda" in done.stdout, "failed": failed}


def section_tests(args: argparse.Namespace) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--device",
        "cuda",
        "--timeout",
        "100",
        "-n",
        "6",
        "--dist",
        "loadfile",
    ]
    command += ["-p", "no:cacheprovider", *(str(ROOT / "tests" / "torch" / f) for f in args.tests)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.tests_seconds, cwd=ROOT)
        text = done.stdout
    except subprocess.TimeoutExpired as e:
        text = (e.stdout or b"").decode() + "\ntimed out"
    if args.log:
        pathlib.Path(args.log).write_text(text)
    failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.M)))
    last = text.strip().splitlines()[-1:] or [""]
    print(f"  {last[0]}", flush=True)
    return {"summary": last[0], "failed": failed}


SECTIONS = {
    "devices": section_devices,
    "rows": section_rows,
    "models": section_models,
    "calls": section_calls,
    "first": section_first,
    "tests": section_tests,
}
TESTS = (
    "test_pointwise.py",
    "test_views.py",
    "test_reductions.py",
    "test_dynamic_shapes.py",
    "test_scalar_operands.py",
    "test_signed_zeros.py",
    "test_training_step.py",
    "test_exceptions.py",
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--models", nargs="+", choices=[c.name for c in demo_models.CASES])
    parser.add_argument("--first", nargs="+", default=["bert", "llama-prefill"], help="models of the section first")
    parser.add_argument("--unit", type=pathlib.Path, default=ROOT / "build" / "poot_unit", help="C++ test binary")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files of tests/torch")
    parser.add_argument("--tests-seconds", type=float, default=150)
    parser.add_argument("--log", help="write the output of the tests to this file")
    parser.add_argument("--commit", help="the commit that is measured, if this is no git checkout")
    parser.add_argument("--json", type=pathlib.Path, required=True)
    args = parser.parse_args(argv)
    commit = (
        args.commit
        or subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    )
    out: dict[str, Any] = {
        "commit": commit,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "seconds": {},
    }
    for name in args.sections:
        print(f"{name}:", flush=True)
        start = time.perf_counter()
        try:
            out[name] = SECTIONS[name](args)
        except Exception as e:
            traceback.print_exc()
            out[name] = {"failed": f"{type(e).__name__}: {e}"[:900]}
        out["seconds"][name] = time.perf_counter() - start
        args.json.write_text(json.dumps(out, indent=1) + "\n")
        gc.collect()
        torch.cuda.empty_cache()
    return 1 if any("failed" in str(out[n]) and out[n].get("failed") for n in args.sections) else 0


if __name__ == "__main__":
    raise SystemExit(main())
