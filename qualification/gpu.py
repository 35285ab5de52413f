"""Everything that needs an NVIDIA GPU, in one run under eight minutes; figures as JSON.

    python -m qualification.gpu --json out.json [--unit build/poot_unit] [--sections rows models]

    devices   the conformance suite over the real driver (the C++ test binary)
    tests     the torch tests that apply, with tensors on the GPU
    rows      memory-bound rows in bf16: time and bandwidth beside the default compiler, error against float64
    calls     host time of a call of two operators; launches of a long chain; memory over sizes; results under replay
    models    the demo models, strict: error against float64 beside eager's, time beside eager
    first     first call and peak memory of models of usual sizes in fresh processes, beside the default compiler
    large     the same models: time beside the default compiler, decoding also beside its reduce-overhead
    best      decoding beside max-autotune, as far as time is left

A section that fails is recorded with its error and does not stop the others. `gates` are what the figures are held to.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any

import torch

from poot_torch import demo_models
from qualification.gpu_calls import section_calls
from qualification.gpu_first import ROOT, section_first
from qualification.gpu_gates import gates, show
from qualification.gpu_models import section_best, section_large, section_models
from qualification.gpu_rows import section_rows

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
        "--device",
        "cuda",
        "--timeout",
        "100",
        "-n",
        "12",
        "--dist",
        "load",
    ]
    command += ["-p", "no:cacheprovider", *(str(ROOT / "tests" / "torch" / f) for f in args.tests)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.tests_seconds, cwd=ROOT)
        text = done.stdout
    except subprocess.TimeoutExpired as e:
        text = (e.stdout or b"").decode() + "\ntimed out"
    if args.log:
        pathlib.Path(args.log).write_text(text)
    failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.M)))
    last = text.strip().splitlines()[-1:] or [""]
    print(f"  {last[0]}", flush=True)
    return {"summary": last[0], "failed": failed}


SECTIONS = {
    "devices": section_devices,
    "rows": section_rows,
    "calls": section_calls,
    "models": section_models,
    "tests": section_tests,
    "first": section_first,
    "large": section_large,
    "best": section_best,
}
TESTS = (
    "test_pointwise.py",
    "test_views.py",
    "test_reductions.py",
    "test_dynamic_shapes.py",
    "test_scalar_operands.py",
    "test_signed_zeros.py",
    "test_training_step.py",
    "test_saved_layouts.py",
    "test_exceptions.py",
    "test_gpu_replay.py",
    "test_gpu_faults.py",
    "test_gpu_devices.py",
    "test_profile.py",
    "test_scans.py",
    "test_scatters.py",
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--models", nargs="+", choices=[c.name for c in demo_models.CASES + demo_models.GPU_CASES])
    parser.add_argument("--demo-backends", nargs="+", default=["eager", "poot"])
    parser.add_argument("--unit", type=pathlib.Path, default=ROOT / "build" / "poot_unit", help="C++ test binary")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files of tests/torch")
    parser.add_argument("--tests-seconds", type=float, default=150)
    parser.add_argument("--log", help="write the output of the tests to this file")
    parser.add_argument("--commit", help="the commit that is measured, if this is no git checkout")
    parser.add_argument("--seconds", type=float, default=455, help="after which best is cut")
    parser.add_argument("--json", type=pathlib.Path, required=True)
    args = parser.parse_args(argv)
    args.ends = time.perf_counter() + args.seconds
    with tempfile.TemporaryDirectory() as caches:
        args.caches = pathlib.Path(caches)
        return run(args)


def run(args: argparse.Namespace) -> int:
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
        out["gates"] = gates(out)
        args.json.write_text(json.dumps(out, indent=1) + "\n")
        gc.collect()
        torch.cuda.empty_cache()
    print("gates:", flush=True)
    show(out["gates"])
    failed = [n for n in args.sections if out[n].get("failed")]
    return 1 if failed or not all(g["met"] for g in out["gates"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
