"""What profilers see of compiled code: launches named by what they fuse, with FX nodes and source lines, and
`poot_torch.profile`'s table. Run with `--device cuda` too."""

import json
import re

import pytest
import torch

import poot_torch
from poot_torch import profiler

ACTIVITIES = [torch.profiler.ProfilerActivity.CPU]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def norm(x, w):
    y = torch.relu(x + 1)  # the first line
    return torch.softmax(y @ w, -1)


def operands():
    """Products of batches are the library's."""
    return torch.randn(2, 64, 256), torch.randn(2, 256, 128)


def names_of(call):
    with torch.profiler.profile(activities=ACTIVITIES) as recorded:
        call()
    return [e.name for e in recorded.events() if e.name.startswith("poot::")]


def test_ranges_name_kernels_nodes_and_lines():
    f = torch.compile(norm, backend="poot", options={"strict": True})
    x, w = operands()
    f(x, w)
    names = names_of(lambda: f(x, w))
    (first,) = [n for n in names if "relu(x + 1)" in n]
    assert first.startswith("poot::fused_") and "[add" in first and "test_profile.py:" in first
    assert any(n.startswith("poot::bmm") and "y @ w" in n for n in names)
    assert any("softmax" in n for n in names)
    assert not any(re.search(r" #\d+$", n) for n in names), "numbers are of poot_torch.profile alone"


def test_launches_that_are_replayed_together_are_told_one_by_one():
    def chain(x):
        for _ in range(4):
            x = x - x.sum(0, keepdim=True)
        return x

    f = torch.compile(chain, backend="poot", options={"strict": True})
    x = torch.randn(64, 64)
    f(x)
    launches = poot_torch.last_report().to_json()["totals"]["dispatches_after"]
    names = names_of(lambda: f(x))
    assert launches > 1
    assert names.count("poot::replay") == 1 and len(names) == launches + 1


def test_results_are_the_same_while_somebody_watches():
    f = torch.compile(norm, backend="poot", options={"strict": True})
    x, w = operands()
    quiet = f(x, w)
    with torch.profiler.profile(activities=ACTIVITIES):
        watched = f(x, w)
    assert torch.equal(quiet, watched)
    poot_torch._C.begin_launch_profile()
    try:
        assert torch.equal(quiet, f(x, w)), "no profiler is on: nothing is watched"
        with torch.profiler.profile(activities=ACTIVITIES):
            assert torch.equal(quiet, f(x, w))
    finally:
        table = poot_torch._C.end_launch_profile()
    assert [r["class"] for r in table].count("library") == 1


def test_profile_of_a_function(tmp_path):
    x, w = operands()
    profile = poot_torch.profile(norm, strict=True)(x, w)
    rows = {r.name: r for r in profile.rows}
    assert rows["bmm"].kind == "library" and rows["bmm"].bytes == 2 * 4 * (64 * 256 + 256 * 128 + 64 * 128)
    (first,) = [r for r in profile.rows if any("relu(x + 1)" in s for s in r.sources)]
    assert first.kind == "generated" and first.launches == 1 and first.bytes == 2 * 2 * 4 * 64 * 256
    assert all(r.seconds > 0 and profile.share(r) > 0 for r in profile.rows)
    assert profile.rows == sorted(profile.rows, key=lambda r: -r.seconds)
    assert profile.seconds == sum(r.seconds for r in profile.rows) < 1
    text = str(profile)
    assert "relu(x + 1)" in text and "bmm (library)" in text and "GB/s" in text
    profile.save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["rows"][0]["name"] == profile.rows[0].name


def test_an_embeddings_table_counts_by_the_rows_that_are_read():
    table, ids = torch.randn(5000, 64), torch.randint(0, 5000, (100,))
    profile = poot_torch.profile(lambda t, i: torch.relu(torch.nn.functional.embedding(i, t)), strict=True)(table, ids)
    (row,) = profile.rows
    assert row.bytes == 100 * 8 + 2 * 100 * 64 * 4


def test_gradients_are_in_the_table():
    with torch.enable_grad():
        w = torch.randn(2, 64, 64, requires_grad=True)

        def step(x):
            (torch.tanh(x @ w) ** 2).sum().backward()
            w.grad = None

        profile = poot_torch.profile(step)(torch.randn(2, 32, 64))
    assert sum(r.launches for r in profile.rows if r.kind == "library") >= 2


def test_a_function_without_compiled_graphs_is_an_error():
    with pytest.raises(poot_torch.PootError, match="ran no graph"):
        poot_torch.profile(lambda x: x)(torch.ones(2))


def test_the_copy_is_measured_once():
    assert profiler.copy_bandwidth("cpu") == profiler.copy_bandwidth("cpu") > 1e8
