"""Peak memory on a GPU of a steady call beside its model and arguments, each backend in a process of its own.

    python -m qualification.gpu_memory                       # all models, both backends
    python -m qualification.gpu_memory MODEL BACKEND         # one, as JSON

peak_bytes: what torch's allocator has given out at the worst moment of a call (torch.cuda.max_memory_allocated; the
result and cuBLAS workspaces included) beyond what the model and its arguments take. Gate: no model needs more than
under the default compiler, but for a thousandth. Beside it: graph_pools, the segments in private pools of CUDA
graphs, which torch counts as allocated only while they are captured; and reserved, all that the process holds on the
device, caches included.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from poot_torch import demo_models
from qualification.gpu_timing import BF16, compiled

GATE = 1.0  # poot's against the default compiler's
BACKENDS = ("inductor", "poot")


def graph_pools() -> int:
    """Bytes in private pools of graphs."""
    segments = torch.cuda.memory_snapshot()
    return sum(s["total_size"] for s in segments if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0))


def measure(name: str, backend: str) -> dict[str, int]:
    instance = demo_models.case(name).build(BF16, 0, False, device="cuda")
    instance.reset()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_allocated()
    f = compiled(instance.fn, backend)
    with torch.no_grad():
        for _ in range(6):
            instance.reset()
            f(*instance.args)
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        for _ in range(4):  # graphs whose memory moved are captured anew
            instance.reset()
            f(*instance.args)
        between = torch.cuda.memory_allocated() - before
        torch.cuda.reset_peak_memory_stats()
        result = f(*instance.args) if name.endswith("decode") else (instance.reset(), f(*instance.args))[1]
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return {
        "peak_bytes": peak,
        "graph_pools": graph_pools(),
        "between_calls": between,
        "reserved": torch.cuda.memory_reserved() - before,
    }


def in_a_process(name: str, backend: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "qualification.gpu_memory", name, backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        return {"failed": done.stderr[-900:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def section_memory(args: argparse.Namespace) -> dict[str, Any]:
    names = [c.name for c in demo_models.GPU_CASES if not args.models or c.name in args.models]
    cases = [(name, backend) for name in names for backend in BACKENDS]
    with ThreadPoolExecutor(4) as pool:
        measured = dict(zip(cases, pool.map(lambda c: in_a_process(*c), cases), strict=True))
    out: dict[str, Any] = {}
    for name in names:
        row: dict[str, Any] = {backend: measured[name, backend] for backend in BACKENDS}
        if not any("failed" in r for r in row.values()):
            row["poot/inductor"] = row["poot"]["peak_bytes"] / row["inductor"]["peak_bytes"]
        out[name] = row
        print(f"  {name}: {row}", flush=True)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", choices=[c.name for c in demo_models.GPU_CASES])
    parser.add_argument("backend", nargs="?", default="poot")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args()
    if args.model:
        print(json.dumps(measure(args.model, args.backend)))
        return 0
    args.models = None
    rows = section_memory(args)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(r.get("poot/inductor", 2.0) > GATE for r in rows.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
