"""Kinds of failure that show only between processes: caches that are shared, damaged or gone, and orphans."""

import os
import pathlib
import subprocess
import sys
import time

SETUP = """
import torch
from poot_torch import _C
from torch import nn

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * 2

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32))
def step(x):
    return Square.apply(model(x)).sum()
x = torch.randn(4, 16, requires_grad=True)
(want,) = torch.autograd.grad(step(x), x)

def compile_step():
    (got,) = torch.autograd.grad(torch.compile(step, backend="poot", options={"strict": True})(x), x)
    torch.testing.assert_close(got, want)
"""
PROGRAM = (
    SETUP
    + """
compile_step()
print("COMPILED", _C.store_stats()["compiled"])
"""
)
# 32 processes that share the cost of loading PyTorch. Every fourth compiles until it is killed, the first of them at
# once and the last after seconds; files are cut short meanwhile.
CROWD = (
    SETUP
    + """
import os, pathlib, random, signal, time, traceback

torch.autograd.grad(torch.compile(step, backend="aot_eager")(x), x)  # what tracing loads once
torch._dynamo.reset()
children = []
for place in range(32):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            compile_step()
            while place % 4 == 0:
                torch._dynamo.reset()
                compile_step()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    children.append(pid)
cache, draw = pathlib.Path(os.environ["POOT_CACHE_DIR"]), random.Random(0)
begun = time.monotonic()
moments = {pid: 0.05 * 2**k for k, pid in enumerate(children[::4])}
ended = {}
while len(ended) < len(children):
    for pid in children:
        if pid not in ended and (found := os.waitpid(pid, os.WNOHANG))[0]:
            ended[pid] = found[1]
    for pid, moment in list(moments.items()):
        if time.monotonic() - begun > moment:
            del moments[pid]
            os.kill(pid, signal.SIGKILL)
    files = [f for f in cache.rglob("*") if f.is_file()]
    if files:
        file = draw.choice(files)
        os.truncate(file, file.stat().st_size // 2)
    time.sleep(0.1)
states = [ended[pid] for pid in children]
assert states == [signal.SIGKILL, 0, 0, 0] * 8, states
print("COMPILED", states.count(0))
"""
)


def start(cache, code=PROGRAM):
    env = {**os.environ, "POOT_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-3000:]
    return int(out.split("COMPILED")[1].split()[0])


WARM = """
import time
def seconds(backend):
    torch._dynamo.reset()
    begin = time.perf_counter()
    torch.autograd.grad(torch.compile(step, backend=backend)(x), x)
    return time.perf_counter() - begin
seconds("aot_eager")  # what tracing loads once
poot, peer = seconds("poot"), seconds("aot_eager")
assert poot < 2 * peer, f"{poot:.2f} s warm, aot_eager {peer:.2f} s"
"""


def test_second_process_compiles_nothing_and_starts_as_fast_as_aot_eager(tmp_path):  # 172547; fairchem 2162
    assert finish(start(tmp_path)) > 0
    assert finish(start(tmp_path, PROGRAM + WARM)) == 0


def test_32_processes_on_one_cold_cache_some_killed(tmp_path):  # 172144
    assert finish(start(tmp_path, CROWD)) == 24
    for file in [f for f in pathlib.Path(tmp_path).rglob("*") if f.is_file()][::2]:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert finish(start(tmp_path)) > 0, "damaged entries were taken for good ones"
    assert finish(start(tmp_path)) == 0


def test_cache_folder_deleted_or_switched_between_compiles(tmp_path):  # 167725
    code = """
import os, shutil, torch
folder = os.environ["POOT_CACHE_DIR"]
x = torch.randn(8)
def compiles(fn):
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(fn, backend="poot", options={"strict": True})(x), fn(x))
compiles(lambda x: x.sin() + 1)
shutil.rmtree(folder)
compiles(lambda x: x.cos() * 3)
os.environ["POOT_CACHE_DIR"] = folder + "/other"
compiles(lambda x: x.exp() - 2)
shutil.rmtree(folder, ignore_errors=True)
os.symlink(os.path.dirname(folder), folder)
compiles(lambda x: x.tanh() * 5)
print("COMPILED 0")
"""
    cache = tmp_path / "cache"
    finish(start(cache, code))
    cache.unlink()
    assert finish(start(cache)) > 0


def test_no_orphan_outlives_a_killed_parent(tmp_path):  # several
    code = """
import time, torch
from poot_torch import _C
_C.warm_up()
torch.compile(lambda x: x.sin() + 1, backend="poot")(torch.randn(8))
print(*_C.worker_pids(), flush=True)
time.sleep(600)
"""
    parent = start(tmp_path, code)
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert workers
    parent.kill()
    parent.communicate()
    end = time.monotonic() + 10
    while time.monotonic() < end and any(pathlib.Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.2)
    left = [pid for pid in workers if pathlib.Path(f"/proc/{pid}/cmdline").exists()]
    assert not left, f"workers {left} live on"
