"""One kernel cache, many processes: 16 at once on a cold directory, some killed, files damaged, options changed.

    python -m qualification cache
    python -m qualification cache --processes 6 --json out.json

Scenarios: a cold directory shared by all processes, of which every fourth is killed at a random moment of its
compilation; a second process, which compiles nothing; entries cut short, emptied and overwritten with noise; a
directory deleted, made unwritable or replaced by a file while a process lives; another target on the same directory.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

_LATEST_KILL_S = 4.0  # after the first compile began; compiling forward and backward beside the others takes longer
_CHILD = """
import json, torch
from torch import nn
import poot_torch
from poot_torch import _C

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))
x = torch.randn(4, 16, requires_grad=True)
def step(x):
    return model(x).softmax(-1).square().sum()
(want,) = torch.autograd.grad(step(x), x)
print("BEGIN", flush=True)
(got,) = torch.autograd.grad(torch.compile(step, backend="poot", options={"strict": True})(x), x)
right = torch.allclose(got, want, atol=1e-6)
BETWEEN
events = poot_torch.last_report().to_json()["store"]["events"]
torch._dynamo.reset()
y = torch.randn(7, 9)
again = torch.compile(lambda t: (t.cos() * 3).sum(0), backend="poot", options={"strict": True})(y)
right = right and torch.allclose(again, (y.cos() * 3).sum(0), atol=1e-5)
print("RESULT " + json.dumps({"right": right, "stats": _C.store_stats(), "events": events + _C.take_store_events()}))
"""


class Failed(Exception):
    """A scenario did not end as it should."""


def start(cache: pathlib.Path, between: str = "", **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD.replace("BETWEEN", between)],
        env={**os.environ, "POOT_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", "POOT_WORKERS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=600)
    line = next((x for x in out.splitlines() if x.startswith("RESULT ")), None)
    if line is None:
        raise Failed(f"the process ended with {process.returncode}: {err[-300:]}")
    record = json.loads(line[len("RESULT ") :])
    if not record["right"]:
        raise Failed("a wrong result")
    return record


def _warm(cache: pathlib.Path) -> None:
    compiled = finish(start(cache))["stats"]["compiled"]
    if compiled:
        raise Failed(f"a process on a warm cache compiled {compiled} kernels")


def _kill(victim: subprocess.Popen[str], after: float) -> None:
    """So many seconds after it began to compile."""
    assert victim.stdout is not None
    victim.stdout.readline()
    time.sleep(after)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()


def shared(cache: pathlib.Path, processes: int) -> str:
    draw = random.Random(0)
    running = [start(cache) for _ in range(processes)]
    victims = running[::4]
    moments = [draw.uniform(0, _LATEST_KILL_S) for _ in victims]
    killers = [threading.Thread(target=_kill, args=pair) for pair in zip(victims, moments, strict=True)]
    for k in killers:
        k.start()
    compiled = [finish(p)["stats"]["compiled"] for p in running if p not in victims]
    for k in killers:
        k.join()
    ended = sum(p.returncode == -signal.SIGKILL for p in victims)
    if not ended:
        raise Failed("every victim had ended before it was killed")
    _warm(cache)
    return f"{ended} of {processes} killed while they compiled, {sum(compiled)} kernels compiled by the others"


def damaged(cache: pathlib.Path, processes: int) -> str:
    finish(start(cache))
    draw = random.Random(0)
    files = sorted(f for f in cache.rglob("*") if f.is_file())
    for i, file in enumerate(files):
        data = file.read_bytes()
        file.write_bytes((data[: len(data) // 2], b"", draw.randbytes(len(data)), data[:-1] + b"\0")[i % 4])
    compiled = finish(start(cache))["stats"]["compiled"]
    if not compiled:
        raise Failed("damaged entries were taken for good ones")
    _warm(cache)
    return f"{len(files)} entries damaged, {compiled} kernels compiled anew"


def deleted(cache: pathlib.Path, processes: int) -> str:
    finish(start(cache, f"import shutil; shutil.rmtree({str(cache)!r})"))
    finish(start(cache))
    _warm(cache)
    return "deleted between two compiles"


def replaced_by_a_file(cache: pathlib.Path, processes: int) -> str:
    text = f"import shutil; shutil.rmtree({str(cache)!r}); open({str(cache)!r}, 'w').close()"
    finish(start(cache, text))
    finish(start(cache))
    return "a file in the place of the directory"


def writable_by_others(cache: pathlib.Path, processes: int) -> str:
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    events = finish(start(cache))["events"]
    if any(f.is_file() for f in cache.rglob("*")):
        raise Failed("code was kept where others can write")
    if not events:
        raise Failed("the report does not say why nothing is kept")
    return events[0][:120]


def another_target(cache: pathlib.Path, processes: int) -> str:
    finish(start(cache))
    compiled = finish(start(cache, POOT_TARGET="x86-64-v3"))["stats"]["compiled"]
    if not compiled:
        raise Failed("kernels of another target were taken")
    _warm(cache)
    return f"{compiled} kernels of the other target"


SCENARIOS: tuple[Callable[[pathlib.Path, int], str], ...] = (
    shared,
    damaged,
    deleted,
    replaced_by_a_file,
    writable_by_others,
    another_target,
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [s.__name__ for s in SCENARIOS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="SCENARIO")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args(argv)
    rows = []
    for run in SCENARIOS:
        if run.__name__ not in args.only:
            continue
        folder = pathlib.Path(tempfile.mkdtemp())
        row = {"name": run.__name__, "failed": "", "told": ""}
        try:
            row["told"] = run(folder / "cache", args.processes)
        except (Failed, subprocess.TimeoutExpired) as e:
            row["failed"] = str(e)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        rows.append(row)
        print(f"{row['name']:20s} {row['failed'] or 'right'}  {row['told']}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"suite": "cache", "rows": rows}, indent=1) + "\n")
    return 1 if any(r["failed"] for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
