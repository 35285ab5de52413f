"""Kernel compilers that crash, hang or answer nonsense: right results, the process alive, and a report that says so.

    python -m qualification containment
    python -m qualification containment --only hang --json out.json

In each scenario a fresh process with an empty cache compiles a small model while its workers misbehave
(`faulty_worker.py`): on the first two kernels, or on every one. Afterwards a second function must compile and run.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

FAULTS = ("crash", "exit", "hang", "garbage", "empty", "huge", "truncated", "flipped", "twice")
SOME, ALL = 2, 10**6
_WORKER = pathlib.Path(__file__).with_name("faulty_worker.py")
_CHILD = """
import json, torch
from torch import nn
import poot_torch
from poot_torch import _C

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8), nn.Softmax(-1)).eval()
x = torch.randn(4, 16)
record = {}
with torch.no_grad():
    want = model(x)
    got = torch.compile(model, backend="poot")(x)
    record["right"] = torch.allclose(got, want, atol=1e-5)
    report = poot_torch.last_report().to_json()
    record["fallback"] = [f["reason"][:200] for g in report["graphs"] for f in g["fallbacks"]]
    kernels = [k for g in report["graphs"] for k in g["kernels"]]
    record["events"] = [e for k in kernels for e in k["events"]] + report["store"]["events"]
    torch._dynamo.reset()
    try:
        torch.compile(lambda t: torch.tanh(t * 3).sum(-1), backend="poot", options={"strict": True})(x)
        record["strict"] = "runs"
    except Exception as e:
        record["strict"] = f"{type(e).__name__}: {str(e).splitlines()[0][:200]}"
record["stats"] = _C.store_stats()
print("RESULT " + json.dumps(record))
"""


def scenario(fault: str, count: int, timeout: float = 120) -> dict[str, Any]:
    """What one process lived through; `failed` names what it should not have."""
    import torch  # noqa: F401  whose libraries _C needs

    from poot_torch import _C

    real = os.environ.get("POOT_KERNELC") or str(pathlib.Path(_C.__file__).parent / "bin" / "poot-kernelc")
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "POOT_CACHE_DIR": f"{folder}/cache",
            "POOT_KERNELC": str(_WORKER),
            "POOT_WORKERS": "2",
            "POOT_COMPILE_TIMEOUT": "1",
            "QUALIFICATION_FAULT": f"{fault}:{count}:{folder}/count:{real}",
        }
        row: dict[str, Any] = {"name": f"{fault} on {'some' if count == SOME else 'all'} kernels", "failed": ""}
        try:
            done = subprocess.run(
                [sys.executable, "-c", _CHILD], env=environment, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return row | {"failed": f"no end within {timeout:.0f} s"}
    line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
    if line is None:
        return row | {"failed": f"the process ended with {done.returncode}: {done.stderr[-300:]}"}
    row |= json.loads(line[len("RESULT ") :])
    if not row["right"]:
        row["failed"] = "a wrong result"
    elif fault != "twice" and not row["events"] and not row["fallback"]:
        row["failed"] = "the report says nothing of it"
    elif count == SOME and row["fallback"]:
        row["failed"] = f"not retried: {row['fallback'][0]}"
    elif count == SOME and row["strict"] != "runs":
        row["failed"] = f"the next function does not compile: {row['strict']}"
    return row


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="FAULT")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args(argv)
    rows = []
    for fault in args.only:
        for count in (SOME, ALL):
            row = scenario(fault, count)
            rows.append(row)
            row["told"] = f"{len(row.get('events', ()))} events, {len(row.get('fallback', ()))} fallbacks"
            print(f"{row['name']}: {row['failed'] or 'contained'} ({row['told']})", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"suite": "containment", "rows": rows}, indent=1) + "\n")
    return 1 if any(r["failed"] for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
