"""A region whose kernel cannot be compiled runs as one kernel an equation, and the report says so."""

import os
import subprocess
import sys

WORKER = """#!{python}
# Passes everything through to the real worker, but dies of every kernel whose text has FATAL.
import os, subprocess, sys, threading
real = subprocess.Popen([{real!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def back():
    while chunk := os.read(real.stdout.fileno(), 1 << 16):
        os.write(1, chunk)
    os._exit(1)
threading.Thread(target=back, daemon=True).start()
while chunk := os.read(0, 1 << 16):
    if b"{fatal}" in chunk:
        real.kill()
        os._exit(3)
    real.stdin.write(chunk)
    real.stdin.flush()
real.stdin.close()
real.wait()
"""

PROGRAM = """
import torch
import poot_torch
from poot_torch.backend import poot

def fn(x):
    return torch.relu(x * 2 + 1), torch.softmax(x, -1)

x = torch.randn(32, 64)
with torch.no_grad():
    got = torch.compile(fn, backend=poot)(x)
torch.testing.assert_close(got, fn(x))
report = poot_torch.last_report()
for g in report.graphs:
    for k in g.native.get("kernels", []):
        print("KERNEL", k["name"], k["origin"], k["launches"], repr(k["events"]))
print("FALLBACKS", len(report.fallbacks))
"""


def run(tmp_path, fatal):
    import poot_torch

    real = os.path.join(os.path.dirname(poot_torch.__file__), "bin", "poot-kernelc")
    worker = tmp_path / "kernelc"
    worker.write_text(WORKER.format(python=sys.executable, real=real, fatal=fatal))
    worker.chmod(0o755)
    env = {**os.environ, "POOT_CACHE_DIR": str(tmp_path / "cache"), "POOT_KERNELC": str(worker), "POOT_WORKERS": "1"}
    out = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr[-3000:]
    lines = [line.split(" ", 4) for line in out.stdout.splitlines()]
    return [line[1:] for line in lines if line[0] == "KERNEL"], int(lines[-1][1])


def test_region_is_split(tmp_path):
    kernels, fallbacks = run(tmp_path, "@fused_")
    assert fallbacks == 0
    failed = [k for k in kernels if k[1] == "failed"]
    assert failed and all(k[2] == "0" and "split into" in k[3] for k in failed)
    assert not any(k[0].startswith("fused") for k in kernels if k[1] != "failed")


def test_single_equation_falls_back_to_eager(tmp_path):
    kernels, fallbacks = run(tmp_path, "kernel")
    assert fallbacks > 0
    assert not kernels
