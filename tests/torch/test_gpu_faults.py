"""Failures on a GPU (`--device cuda`): a typed error or the right answer, and right answers afterwards, as long as the
driver lets the process live."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F

import poot_torch
from poot_torch import _C

pytestmark = pytest.mark.usefixtures("on_gpu")


def compiled(fn, **options):
    return torch.compile(fn, backend="poot", options={"strict": True, **options})


def mlp(x, w):
    return torch.softmax(F.gelu(x @ w) + 1, -1) @ w


@pytest.fixture
def little_memory():
    """The process may hold 200 MB more than it does."""
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (200 << 20)) / whole)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def test_out_of_memory_is_torchs_error_and_the_process_goes_on(little_memory):
    f = torch.compile(mlp, backend="poot", options={"strict": True}, dynamic=True)
    w = torch.randn(512, 512) / 32
    small = torch.randn(64, 512)
    f(small, w)
    large = torch.empty(60_000, 512)  # 120 MB, and its result too
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError):
            f(large, w)
        torch.testing.assert_close(f(small, w), mlp(small, w), rtol=1e-4, atol=1e-5)


def take_all():
    """Leaves less than a result of 16 MB needs."""
    blocks = []
    try:
        while True:
            blocks.append(torch.empty(8 << 20, dtype=torch.uint8))
    except torch.OutOfMemoryError:
        return blocks


def test_out_of_memory_in_every_call_of_a_program_that_is_captured(little_memory):
    f = compiled(mlp)
    w, x = torch.randn(512, 512) / 32, torch.randn(8_000, 512)
    expected = mlp(x, w)
    for full in (False, True, False, True, False, False, False, True, False):
        if full:
            hoard = take_all()
            with pytest.raises(torch.OutOfMemoryError):
                f(x, w)
            del hoard
        else:
            torch.testing.assert_close(f(x, w), expected, rtol=1e-4, atol=1e-5)


def test_an_index_out_of_range_is_a_later_calls_error():
    f = compiled(lambda t, i: torch.relu(F.embedding(i, t)) * 2)
    table, good, bad = torch.randn(100, 8), torch.tensor([3, 99, 0]), torch.tensor([3, 100, 0])
    expected = torch.relu(table[good]) * 2
    for _ in range(3):
        assert torch.equal(f(table, good), expected)
        f(table, bad)
        torch.cuda.synchronize()
        with pytest.raises(IndexError, match="index out of range in kernel fused_"):
            f(table, good)
        assert torch.equal(f(table, good), expected), "told once, and the process lives"


def test_killed_workers_cost_a_retry():
    for n in range(3):
        for pid in _C.worker_pids():
            os.kill(pid, signal.SIGKILL)
        x = torch.randn(64, 64)
        f = compiled(lambda x, n=n: torch.tanh(x * (n + 2)) - n)
        torch.testing.assert_close(f(x), torch.tanh(x * (n + 2)) - n, rtol=1e-5, atol=1e-5)
    assert poot_torch.last_report().to_json()["totals"]["classes"]["fallback"] == 0


LOST = """
import torch, poot_torch
f = torch.compile(lambda x: torch.softmax(x @ x + 1, -1), backend="poot")
x = torch.randn(256, 256, device="cuda")
for _ in range(4):
    f(x)
torch.cuda.synchronize()
try:
    torch.zeros(4, device="cuda")[torch.tensor([7], device="cuda")].cpu()
    print("no error")
except RuntimeError as e:
    print("eager:", type(e).__name__)
for _ in range(2):
    try:
        f(x)
        torch.cuda.synchronize()
        print("no error")
    except (RuntimeError, poot_torch.PootError) as e:
        print("poot:", type(e).__name__)
"""


def test_after_a_lost_context_errors_are_typed_and_the_process_ends_by_itself():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(LOST)], capture_output=True, text=True, timeout=100)
    lines = done.stdout.split()
    assert lines.count("poot:") == 2 and "no error" not in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stderr[-2000:]
