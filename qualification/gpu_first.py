"""First call and peak memory of models on a GPU, each figure from a process of its own with caches of its own.

    python -m qualification.gpu_first                          # all models
    python -m qualification.gpu_first --child MODEL KIND       # one process's figures, as JSON

KIND: poot and inductor (cold), "poot again" (a second process on poot's cache, whose worker is out of reach: nothing
can be compiled in it) and aot_eager. Several processes get ready at once; a first call has CORES of the processor to
itself, and as many are made at once as there are such shares. Second processes and aot_eager make STARTS each, in
turns, and their seconds are the medians. The first of all are aot_eager's, which bring the files of the libraries into
memory. The cold processes go on to measure a steady call's memory beside the model and its arguments:

peak_bytes: what torch's allocator has given out at the worst moment of a call (torch.cuda.max_memory_allocated; the
result and cuBLAS workspaces included) beyond what the model and its arguments take. Beside it: graph_pools, the
segments in private pools of CUDA graphs, of which torch counts as allocated only what is held between the graphs; and
reserved, all that the process holds on the device, caches included.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

import torch
import torch._dynamo

from poot_torch import _C, demo_models
from qualification.gpu_timing import BF16, compiled

COLD = ("poot", "inductor")
WARM = ("poot again", "aot_eager")
STARTS = 2  # of each warm kind
ROOT = pathlib.Path(__file__).resolve().parent.parent
TOGETHER = 8  # processes
CORES = 8  # for a first call
SHARES = "QUALIFICATION_SHARES"  # environment: the folder of the files that first calls lock, one a share of the cores


# ---- in the process


def shares_of_cores() -> list[list[int]]:
    cores = sorted(os.sched_getaffinity(0))
    count = max(1, len(cores) // CORES)
    return [cores[i * CORES : (i + 1) * CORES] for i in range(count)]


@contextlib.contextmanager
def a_share_of_the_cores() -> Iterator[None]:
    """Waits for one; the threads there are, and those that come, keep to it."""
    folder = os.environ.get(SHARES)
    if folder is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        files = [(c, stack.enter_context(open(f"{folder}/share{c[0]}", "w"))) for c in shares_of_cores()]
        cores = None
        while cores is None:
            cores = next((c for c, file in files if locked(file)), None)
            time.sleep(0.02)
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)
        yield


def locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def graph_pools() -> int:
    """Bytes in private pools of graphs."""
    segments = torch.cuda.memory_snapshot()
    return sum(s["total_size"] for s in segments if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0))


def steady_memory(name: str, f: Any, instance: demo_models.Instance, before: int) -> dict[str, int]:
    for _ in range(5):
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
    if not name.endswith("decode"):
        instance.reset()
    result = f(*instance.args)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return {
        "peak_bytes": peak,
        "graph_pools": graph_pools(),
        "between_calls": between,
        "reserved": torch.cuda.memory_reserved() - before,
    }


def measure(name: str, kind: str) -> dict[str, Any]:
    instance = demo_models.case(name).build(BF16, 0, False, device="cuda")
    instance.reset()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_allocated()
    f = instance.step(compiled(instance.fn, kind.partition(" ")[0]))
    with torch.no_grad(), a_share_of_the_cores():
        torch.cuda.synchronize()
        start = time.perf_counter()
        f(*instance.args)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    out: dict[str, Any] = {"seconds": seconds, "kernels": _C.store_stats()}
    if kind in COLD:
        with torch.no_grad():
            out["memory"] = steady_memory(name, f, instance, before)
    return out


# ---- the processes


def in_a_process(name: str, kind: str, caches: pathlib.Path) -> dict[str, Any]:
    env = dict(os.environ, **cache_variables(caches, name))
    env.update(POOT_CACHE_DIR=f"{caches}/{name}/poot", CUDA_CACHE_PATH=f"{caches}/{name}/cuda")
    env.update({SHARES: str(caches), "TORCHINDUCTOR_COMPILE_THREADS": str(CORES)})
    if kind == "poot again":
        env["POOT_KERNELC"] = f"{caches}/none"
    command = [sys.executable, "-m", "qualification.gpu_first", "--child", name, kind]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {"failed": "timed out"}
    if done.returncode != 0:
        return {"failed": done.stderr[-900:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def cache_variables(caches: pathlib.Path, name: str) -> dict[str, str]:
    """Where the default compiler keeps what it compiled of a model."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/{name}/inductor",
        "TRITON_CACHE_DIR": f"{caches}/{name}/triton",
    }


def row_of(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """A model's figures: of each kind's starts the median, and all of them."""
    out: dict[str, Any] = {}
    failed = {kind: r["failed"] for kind, starts in found.items() for r in starts if "failed" in r}
    if failed:
        out["failed"] = failed
    all_seconds = {kind: [r["seconds"] for r in starts if "seconds" in r] for kind, starts in found.items()}
    seconds = out["seconds"] = {kind: statistics.median(all_) for kind, all_ in all_seconds.items() if all_}
    for kind, peer in (COLD, WARM):
        if {kind, peer} <= seconds.keys():
            out[f"{kind}/{peer}"] = seconds[kind] / seconds[peer]
    out["starts"] = {kind: all_seconds[kind] for kind in WARM}
    out["compiled again"] = sum(r["kernels"]["compiled"] for r in found["poot again"] if "kernels" in r)
    memory = out["memory"] = {kind: starts[0]["memory"] for kind, starts in found.items() if "memory" in starts[0]}
    if len(memory) == 2:
        memory["poot/inductor"] = memory["poot"]["peak_bytes"] / memory["inductor"]["peak_bytes"]
    return out


def section_first(args: argparse.Namespace) -> dict[str, Any]:
    names = [c.name for c in demo_models.GPU_CASES if not args.models or c.name in args.models]
    again, peer = WARM
    order = [peer, *COLD, *([again, peer] * STARTS)[:-1]]
    futures: dict[tuple[str, str], list[Future[dict[str, Any]]]] = {(n, k): [] for n in names for k in order}

    def run(name: str, kind: str) -> dict[str, Any]:
        if kind == "poot again":  # submitted before, so this ends
            futures[name, "poot"][0].result()
        return in_a_process(name, kind, args.caches)

    with ThreadPoolExecutor(TOGETHER) as pool:
        for kind in order:
            for name in names:
                futures[name, kind].append(pool.submit(run, name, kind))
    out = {name: row_of({kind: [f.result() for f in futures[name, kind]] for kind in order}) for name in names}
    for name, row in out.items():
        print(f"  {name}: {row}", flush=True)
    return out


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=[c.name for c in demo_models.GPU_CASES])
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "KIND"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        print(json.dumps(measure(*args.child)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        args.caches = pathlib.Path(folder)
        rows = section_first(args)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any("failed" in r for r in rows.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
