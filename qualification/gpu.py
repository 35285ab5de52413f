"""Everything that needs an NVIDIA GPU, in one run under eight minutes; figures as JSON.

    python -m qualification.gpu --json out.json [--unit build/poot_unit] [--sections rows models]

    devices   the conformance suite over the real driver (the C++ test binary)
    tests     the torch tests that apply, with tensors on the GPU
    models    the demo models, strict: error against float64 beside eager's, time beside eager and the default compiler
    memory    peak memory of models of usual sizes beside the default compiler, each in a process of its own
    large     models of usual sizes in bf16: time and peak memory beside the default compiler, with and without graphs
    rows      memory-bound rows in bf16: time and bandwidth beside the default compiler, error against float64
    calls     host time of a call of two operators; launches of a long chain
    first     first call of models in fresh processes, cold and in a second process

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
from qualification.gpu_memory import section_memory
from qualification.gpu_models import section_large, section_models
from qualification.gpu_rows import section_rows
from qualification.gpu_timing import compiled, device_seconds

ROOT = pathlib.Path(__file__).resolve().parent.parent


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
import torch._dynamo
from poot_torch import _C, demo_models
backend, name = sys.argv[1:3]
instance = demo_models.case(name).build(torch.bfloat16, 0, False, device="cuda")
torch.cuda.synchronize()
with torch.no_grad():
    f = torch.compile(instance.fn, backend=backend, options={"strict": True} if backend == "poot" else None)
    instance.reset()
    start = time.perf_counter()
    f(*instance.args)
    torch.cuda.synchronize()
    print(json.dumps({"seconds": time.perf_counter() - start, "kernels": _C.store_stats()}))
"""


def first_call(name: str) -> dict[str, Any]:
    """Each figure from a process of its own. The second one of poot cannot compile: the worker is out of its reach."""
    out: dict[str, Any] = {"seconds": {}}
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, POOT_CACHE_DIR=f"{folder}/poot", TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor")
        env.update(TRITON_CACHE_DIR=f"{folder}/triton", CUDA_CACHE_PATH=f"{folder}/cuda")
        no_worker = {"POOT_KERNELC": f"{folder}/none"}
        for key in ("poot", "inductor", "poot again", "aot_eager"):
            extra = no_worker if key == "poot again" else {}
            command = [sys.executable, "-c", FIRST, key.partition(" ")[0], name]
            done = subprocess.run(command, env=env | extra, capture_output=True, text=True, timeout=150, cwd=ROOT)
            if done.returncode != 0:
                out.setdefault("failed", {})[key] = done.stderr[-500:]
                continue
            record = json.loads(done.stdout.strip().splitlines()[-1])
            out["seconds"][key] = record["seconds"]
            if key == "poot again":
                out["kernels again"] = record["kernels"]
    seconds = out["seconds"]
    if {"poot", "inductor"} <= seconds.keys():
        out["poot/inductor"] = seconds["poot"] / seconds["inductor"]
    if {"poot again", "aot_eager"} <= seconds.keys():
        out["poot again/aot_eager"] = seconds["poot again"] / seconds["aot_eager"]
    return out


def section_first(args: argparse.Namespace) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in args.first:
        out[name] = first_call(name)
        print(f"  {name}: {out[name]}", flush=True)
    return out


# ---- tests


def section_devices(args: argparse.Namespace) -> dict[str, Any]:
    done = subprocess.run(
        [str(args.unit), "--gtest_filter=*DeviceConformance*:Cuda*:GpuModule*:Capture*:*DriverFaults*"],
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
    "memory": section_memory,
    "large": section_large,
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
    "test_gpu_replay.py",
    "test_gpu_faults.py",
    "test_gpu_devices.py",
    "test_profile.py",
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--models", nargs="+", choices=[c.name for c in demo_models.CASES + demo_models.GPU_CASES])
    parser.add_argument("--demo-backends", nargs="+", default=["eager", "inductor", "poot"])
    parser.add_argument("--large-backends", nargs="+", default=["inductor", "inductor:reduce-overhead", "poot"])
    first = ["llama-1b-decode", "bert-base-32"]
    parser.add_argument("--first", nargs="+", default=first, help="models of the section first")
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
