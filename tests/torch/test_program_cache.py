"""A second process finds whole programs: no pass runs, results and reports stay the same."""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = """
import json, sys, torch
import poot_torch
from poot_torch import _C

def fn(x, w, n):
    y = torch.softmax(x @ w, -1) * n
    y[0] += 1
    return y.sum(0), torch.lgamma(x), y.t()

torch.manual_seed(0)
x, w = torch.randn(5, 8), torch.randn(8, 6)
compiled = torch.compile(fn, backend="poot", dynamic=True, options=json.loads(sys.argv[1]))
for n in (2.0, 3.0):
    for got, want in zip(compiled(x, w, n), fn(x, w, n)):
        torch.testing.assert_close(got, want)
report = poot_torch.last_report().to_json()
for graph in report["graphs"]:
    for item in graph["passes"] + graph["kernels"]:
        item.pop("ms", None), item.pop("origin", None)
kept = [{k: v for k, v in g.items() if k != "phases_ms"} for g in report["graphs"]]
phases = [sorted(g["phases_ms"]) for g in report["graphs"]]
print("RESULT " + json.dumps({"stats": _C.store_stats(), "phases": phases, "graphs": kept}))
"""


def run(cache, options=None, **environment):
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(options or {})],
        env={**os.environ, "POOT_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert out.returncode == 0, out.stderr[-3000:]
    return json.loads(out.stdout.split("RESULT ")[1])


def test_second_process_runs_no_pass(tmp_path):
    cold, warm = run(tmp_path), run(tmp_path)
    assert cold["stats"]["programs"] == 0 and all("passes" in p for p in cold["phases"])
    assert warm["stats"]["programs"] == len(warm["graphs"]) and warm["stats"]["compiled"] == 0
    assert all("passes" not in p and "find" in p for p in warm["phases"])
    assert warm["graphs"] == cold["graphs"], "the report tells the same of a program that was found"


def test_other_options_and_looks_at_passes_find_nothing(tmp_path):
    run(tmp_path)
    assert run(tmp_path, {"fuse": False})["stats"]["programs"] == 0
    assert run(tmp_path, POOT_SKIP="cse")["stats"]["programs"] == 0


def test_damaged_records_are_made_anew(tmp_path):
    run(tmp_path)
    for file in [f for f in pathlib.Path(tmp_path).rglob("*") if f.is_file()]:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data))
    assert run(tmp_path)["stats"]["programs"] == 0
    assert run(tmp_path)["stats"]["programs"] > 0
