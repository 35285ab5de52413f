"""What the user's machine may lack: a compiler, a PATH, the worker (once the cache is warm)."""

import os
import pathlib
import subprocess
import sys

MODEL = """
import torch, torch.nn as nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 16)).eval()
x = torch.randn(8, 64)
with torch.no_grad():
    want = model(x)
    got = torch.compile(model, backend="poot", options={"strict": True})(x)
torch.testing.assert_close(got, want)
from poot_torch import _C
print("COMPILED", _C.store_stats()["compiled"])
"""


def run(code, env):
    # The package under test is found through the interpreter's own environment; only variables are cleared.
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr[-3000:]
    return int(out.stdout.split("COMPILED")[1])


def test_no_compiler_and_no_path(tmp_path):  # 116696
    env = {"PATH": "/nonexistent", "POOT_CACHE_DIR": str(tmp_path)}
    assert run(MODEL, env) > 0


def test_second_process_needs_no_worker(tmp_path):
    env = {**os.environ, "POOT_CACHE_DIR": str(tmp_path)}
    assert run(MODEL, env) > 0
    assert list(pathlib.Path(tmp_path).rglob("*")), "the first process left nothing on disk"
    env["POOT_KERNELC"] = "/nonexistent/poot-kernelc"
    assert run(MODEL, env) == 0
