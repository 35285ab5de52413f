"""First call in a fresh process: poot against PyTorch's default compiler (cold), and against aot_eager (warm).

    python -m qualification.first_call                        # demo models and small functions, n = 3
    python -m qualification.first_call --cases bert --n 1 --json out.json

Every measurement is a process of its own with empty cache directories for all; processes of the peers alternate. "Warm"
is a second process on poot's cache directory with the worker binary out of reach: nothing can be compiled in it. Times
are of the first call alone; imports are outside.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

COLD_GATE = {"model": 0.3, "small": 0.12}  # share of the default compiler's cold first call
WARM_GATE = 1.3  # times aot_eager's first call, on models


def small_functions():
    """name -> (function, arguments), built in the measured process."""
    import torch

    def pointwise(a, b):
        return torch.tanh(a * 1.5 + b) * torch.sigmoid(b) + a.abs().sqrt()

    def rms_norm(x, residual, weight):
        h = x + residual
        return h, h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    def softmax(x):
        return torch.softmax(x * 0.125, dim=-1)

    r = torch.randn
    return {
        "pointwise": (pointwise, (r(1024, 2048), r(1024, 2048))),
        "rms_norm": (rms_norm, (r(2048, 2048), r(2048, 2048), r(2048))),
        "softmax": (softmax, (r(256, 16384),)),
    }


SMALL = ("pointwise", "rms_norm", "softmax")


def child(case: str, backend: str) -> None:
    """Runs in the fresh process: prints one JSON line."""
    import torch
    import torch._dynamo  # noqa: F401  its import is not the backend's cost

    if case in SMALL:
        fn, args = small_functions()[case]
    else:
        from poot_torch import demo_models

        instance = demo_models.case(case).build(torch.float32, 0, False)
        instance.reset()
        fn, args = instance.fn, instance.args
    options = {"strict": True} if backend == "poot" else None
    with torch.no_grad():
        compiled = torch.compile(fn, backend=backend, options=options)
        start = time.perf_counter()
        compiled(*args)
        seconds = time.perf_counter() - start
    record = {"seconds": seconds}
    if backend == "poot":
        from poot_torch import _C

        record["stats"] = _C.store_stats()
    print("RESULT " + json.dumps(record))


def run(case: str, backend: str, caches: str, **extra: str) -> dict:
    env = dict(os.environ)
    env.update(
        TORCHINDUCTOR_CACHE_DIR=f"{caches}/inductor",
        TRITON_CACHE_DIR=f"{caches}/triton",
        POOT_CACHE_DIR=f"{caches}/poot",
        **extra,
    )
    command = [sys.executable, "-m", "qualification.first_call", "--child", case, backend]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    for line in out.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[len("RESULT ") :])
    raise RuntimeError(f"{case} under {backend} printed no result:\n{out.stderr[-2000:]}")


def measure_case(case: str, n: int) -> dict:
    times: dict[str, list[float]] = {"poot": [], "inductor": [], "poot-warm": [], "aot_eager": []}
    for _ in range(n):
        with tempfile.TemporaryDirectory() as caches:
            times["poot"].append(run(case, "poot", caches)["seconds"])
            times["inductor"].append(run(case, "inductor", caches)["seconds"])
            warm = run(case, "poot", caches, POOT_KERNELC="/nonexistent/poot-kernelc")
            times["poot-warm"].append(warm["seconds"])
            if warm["stats"]["compiled"]:
                raise RuntimeError(f"{case}: the second process compiled {warm['stats']['compiled']} kernels")
            times["aot_eager"].append(run(case, "aot_eager", caches)["seconds"])
    median = {name: statistics.median(t) for name, t in times.items()}
    return {
        "case": case,
        "seconds": median,
        "cold_ratio": statistics.median(p / i for p, i in zip(times["poot"], times["inductor"], strict=True)),
        "warm_ratio": statistics.median(p / a for p, a in zip(times["poot-warm"], times["aot_eager"], strict=True)),
    }


def main(argv: list[str] | None = None) -> int:
    from poot_torch.demo_models import CASES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = [c.name for c in CASES]
    parser.add_argument("--cases", nargs="+", choices=[*models, *SMALL], default=[*models, *SMALL])
    parser.add_argument("--n", type=int, default=3, help="processes of each kind")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--child", nargs=2, metavar=("CASE", "BACKEND"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        child(*args.child)
        return 0
    rows, failed = [], []
    for case in args.cases:
        row = measure_case(case, args.n)
        rows.append(row)
        s = row["seconds"]
        print(
            f"{case:13s} cold: poot {s['poot']:.2f} s, inductor {s['inductor']:6.2f} s, ratio {row['cold_ratio']:.3f} "
            f"warm: poot {s['poot-warm']:6.2f} s, aot_eager {s['aot_eager']:6.2f} s, ratio {row['warm_ratio']:.2f}",
            flush=True,
        )
        gate = COLD_GATE["small" if case in SMALL else "model"]
        if row["cold_ratio"] > gate or (case not in SMALL and row["warm_ratio"] > WARM_GATE):
            failed.append(case)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    for case in failed:
        print(f"past the gate: {case}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
