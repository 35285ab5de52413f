"""A worker that dies costs a retry, never a wrong answer or the process."""

import os
import subprocess
import sys

KILLER = """
import os, signal, threading, time, torch
from poot_torch import _C
import poot_torch

def fn(x):
    for i in range(12):
        x = torch.softmax(torch.tanh(x * (i + 1.5)), -1) + x.mean(-1, keepdim=True)
    return x

stop = threading.Event()
killed = []
def killer():
    while not stop.is_set() and len(killed) < 4:
        for pid in _C.worker_pids():
            try:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            except ProcessLookupError:
                pass
        time.sleep(0.02)

x = torch.randn(32, 64)
want = fn(x)
_C.warm_up()
thread = threading.Thread(target=killer)
thread.start()
with torch.no_grad():
    got = torch.compile(fn, backend="poot", options={"strict": True})(x)
stop.set(); thread.join()
torch.testing.assert_close(got, want)
graphs = poot_torch.last_report().to_json()["graphs"]
events = [e for g in graphs for k in g["kernels"] for e in k["events"]]
print("KILLED", len(killed), "RESTARTS", _C.store_stats()["worker_restarts"], "EVENTS", len(events))
print(events)
"""


def test_killed_worker_gives_the_right_answer(tmp_path):
    env = {**os.environ, "POOT_CACHE_DIR": str(tmp_path)}
    out = subprocess.run([sys.executable, "-c", KILLER], env=env, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr[-3000:]
    words = out.stdout.split()
    assert int(words[words.index("KILLED") + 1]) > 0
    assert int(words[words.index("RESTARTS") + 1]) > 0
    assert int(words[words.index("EVENTS") + 1]) > 0, "the report does not say what happened"
