"""The gates of the GPU's figures, and how the figures of several processes become a row."""

import argparse
import pathlib

import pytest

from qualification import gpu_first, gpu_gates
from qualification.gpu_rows import GATED

MEMORY = {"peak_bytes": 100, "graph_pools": 0, "between_calls": 0, "reserved": 200}
SECONDS = {"poot": 4.0, "inductor": 10.0, "poot again": 3.0, "aot_eager": 3.0}


def process(kind):
    out = {"seconds": SECONDS[kind], "kernels": {"compiled": 0}}
    return {**out, "memory": MEMORY} if kind in ("poot", "inductor") else out


@pytest.fixture
def out():
    return {
        "rows": {"geometric mean": 1.6, "column-sum": {}, **{n: {"inductor/poot": [1.1, 1.0, 1.2]} for n in GATED}},
        "calls": {
            "two operators, host us a call": {"inductor": 50.0, "poot": 30.0},
            "chain": {"host us a kernel": 0.2},
            "many sizes": {"allocated": [5, 6, 6, 6], "reserved": [8, 9, 9, 9]},
            "results kept": {"changed by later calls": 0},
        },
        "models": {
            "a bf16": {"accurate": True, "same": True, "report": {"classes": {"fallback": 0}}},
            "all accurate": True,
        },
        "first": {"m": gpu_first.row_of({k: [process(k)] for k in SECONDS})},
        "large": {
            "geometric mean": 1.2,
            "llama-1b-decode": {"inductor/poot": [4.0, 4.0, 4.0], "inductor:reduce-overhead/poot": [1.4, 1.3, 1.5]},
        },
        "best": {"inductor:max-autotune/poot": [1.25, 1.2, 1.3]},
        "tests": {"summary": "9 passed", "failed": []},
        "devices": {"failed": [], "real device": True},
    }


def missed(out):
    return [g["what"] for g in gpu_gates.gates(out) if not g["met"]]


def test_all_are_met(out):
    assert missed(out) == []
    assert len(gpu_gates.gates(out)) == 18


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (("rows", "geometric mean"), 1.4, "memory-bound rows, default compiler's time over poot's, mean"),
        (("rows", "rope", "inductor/poot"), [0.9, 0.9, 0.9], "memory-bound rows, lowest"),
        (("best", "inductor:max-autotune/poot"), [1.1, 1.0, 1.2], "decode, best mode's time over poot's"),
        (("models", "a bf16", "same"), False, "demo models, strict, within 1.5 times eager's error or 2 ulp"),
        (("first", "m", "poot/inductor"), 0.51, "first call cold, share of the default compiler's"),
        (("first", "m", "memory", "poot/inductor"), 1.0001, "peak memory, share of the default compiler's"),
        (("calls", "many sizes", "reserved"), [8, 9, 9, 10], "bytes that memory grows by in 1,000 calls at 50 sizes"),
        (("tests", "failed"), ["tests/torch/test_views.py::test_y"], "failed torch tests"),
        (("devices", "real device"), False, "failed tests of the device interface"),
        (("large",), {"failed": "DeviceError"}, "section large"),
        (("calls",), {"chain": {}}, "section calls"),
    ],
)
def test_what_falls_short_is_named(out, path, value, what):
    *front, last = path
    at = out
    for key in front:
        at = at[key]
    at[last] = value
    assert missed(out) == [what]


@pytest.mark.parametrize(
    "tests",
    [
        {"summary": "1 failed, 8 passed", "failed": ["tests/torch/test_gpu_faults.py::test_y"]},
        {"summary": "timed out", "failed": []},
    ],
)
def test_a_failed_test_of_faults_counts_as_both(out, tests):
    out["tests"] = tests
    assert missed(out) == ["failed tests of failures on the device", "failed torch tests"]


def test_a_slow_start_among_others_does_not_count():
    starts = [process("poot again"), {**process("poot again"), "seconds": 9.0}, process("poot again")]
    found = {k: [process(k)] for k in SECONDS} | {"poot again": starts}
    row = gpu_first.row_of(found)
    assert row["poot again/aot_eager"] == 1.0
    assert row["starts"]["poot again"] == [3.0, 9.0, 3.0]


def test_a_second_process_comes_after_the_first(monkeypatch, tmp_path):
    ended = []

    def in_a_process(name, kind, caches):
        if kind == "poot again":
            assert (name, "poot") in ended
        ended.append((name, kind))
        return process(kind) if name != "bert-base-32" else {"failed": "no"}

    monkeypatch.setattr(gpu_first, "in_a_process", in_a_process)
    rows = gpu_first.section_first(argparse.Namespace(models=None, caches=pathlib.Path(tmp_path)))
    assert len(ended) == len(rows) * (len(gpu_first.COLD) + len(gpu_first.WARM) * gpu_first.STARTS)
    assert rows["llama-1b-decode"]["poot/inductor"] == 0.4
    assert rows["llama-1b-decode"]["poot again/aot_eager"] == 1.0
    assert rows["llama-1b-decode"]["memory"]["poot/inductor"] == 1.0
    assert rows["bert-base-32"]["failed"] == dict.fromkeys(SECONDS, "no")
