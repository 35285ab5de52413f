"""The report: what it holds, that it follows its schema, and what it says in text."""

import json
import re
from unittest import mock

import pytest
import torch

import poot_torch.backend
from poot_torch import _C
from poot_torch.report import SCHEMA_PATH

KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def violations(schema, value, root, where="report"):
    """Violations of the part of JSON schema that report_schema.json uses."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not in {schema['enum']}"
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not isinstance(
            value, tuple(t for k in kinds for t in ([KINDS[k]] if isinstance(KINDS[k], type) else KINDS[k]))
        ):
            yield f"{where}: {value!r} is not {kinds}"
            return
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from violations(schema.get("items", {}), item, root, f"{where}[{i}]")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key in schema.get("required", ()):
            if key not in value:
                yield f"{where}: no {key!r}"
        for key, item in value.items():
            rest = schema.get("additionalProperties", {})
            if key not in properties and rest is False:
                yield f"{where}: {key!r} is not in the schema"
            yield from violations(properties.get(key, rest or {}), item, root, f"{where}.{key}")


def broken(x):
    y = torch.relu(x + 1)
    torch._dynamo.graph_break()
    return torch.softmax(y, -1) + x.double().view(torch.int64)


@pytest.fixture(scope="module")
def report():
    with torch.no_grad():
        return poot_torch.explain(broken)(torch.rand(4, 4) + 2 * torch.eye(4))


def test_schema(report):
    schema = json.loads(SCHEMA_PATH.read_text())
    data = json.loads(json.dumps(report.to_json()))
    assert not list(violations(schema, data, schema))
    data["totals"]["graphs"] = "two"
    del data["regions"][0]["compile_id"]
    assert len(list(violations(schema, data, schema))) == 2


def objects(schema):
    """Every object of the schema, nested ones included."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for item in schema.values():
            yield from objects(item)
    elif isinstance(schema, list):
        for item in schema:
            yield from objects(item)


def test_schema_is_exact():
    """The compiler, the front end and the schema list the same keys: no key is optional, none is unknown."""
    schema = json.loads(SCHEMA_PATH.read_text())
    for o in objects({k: v for k, v in schema.items() if k != "$schema"}):
        assert o["additionalProperties"] is False and sorted(o["required"]) == sorted(o["properties"])
    native = set(_C.empty_report())
    assert native < set(schema["$defs"]["graph"]["required"])
    assert set(schema["$defs"]["graph"]["required"]) - native == {
        "region", "kind", "nodes", "whole_graph_fallback", "classes", "fallbacks",
    }  # fmt: skip


def test_schema_holds_for_every_kind_of_record():
    """A graph with one record of each kind, and one that runs in eager as a whole."""
    schema = json.loads(SCHEMA_PATH.read_text())

    def fn(x, w, h):
        return (
            torch.softmax(x @ w, -1).t().reshape(-1) * 2,
            h.double().view(torch.int64),
            x.to(torch.float64) @ w.double(),
        )

    def without_kernels(z):
        return z.int() * 2

    with torch.no_grad():
        data = poot_torch.explain(fn)(torch.rand(8, 4), torch.rand(4, 8).t().contiguous().t(), torch.rand(3)).to_json()
        whole = poot_torch.explain(without_kernels)(torch.arange(3).to(torch.uint16)).to_json()
    assert not list(violations(schema, data, schema)) and not list(violations(schema, whole, schema))
    (graph,) = data["graphs"]
    assert graph["ops"] and graph["fusions"] and graph["kernels"] and graph["passes"] and graph["fallbacks"]
    assert whole["graphs"][0]["whole_graph_fallback"] and whole["graphs"][0]["ops"] == []


def test_contents(report):
    data = report.to_json()
    assert data["totals"]["graphs"] == 2 and data["totals"]["breaks"] == 1
    assert data["totals"]["classes"]["generated"] > 0 and data["totals"]["classes"]["fallback"] == 1
    assert 0 < data["totals"]["dispatches_after"] <= data["totals"]["dispatches_before"]
    assert sum(data["totals"]["kernels"].values()) > 0
    (fallback,) = report.fallbacks
    assert fallback.op == "aten.view.dtype" and "test_report.py" in fallback.source
    sources = [o["source"] for g in data["graphs"] for k in g["kernels"] for o in k["origins"]]
    assert any("torch.relu(x + 1)" in s for s in sources)
    assert {"import", "find", "load"} <= set(data["totals"]["phases_ms"])


def test_text(report):
    text = str(report)
    assert "2 graph(s), 1 graph break(s)" in text
    assert "fallback aten.view.dtype(f64): no lowering" in text
    assert "graph_break" in text and "test_report.py" in text
    assert re.search(r"^    generated: .*\badd\b", text, re.M)
    fusions = [f for g in report.to_json()["graphs"] for f in g["fusions"]]
    assert fusions and all(f"fused by {f['pass']}: {f['eqns']} operators as {f['kernel']}" in text for f in fusions)


@torch.no_grad()
def test_compiler_deaths_are_told(tmp_path):
    report = poot_torch.explain(lambda x: torch.relu(x) * 3)(torch.ones(5))
    assert report.store["worker_restarts"] == 0
    with mock.patch.object(_C, "take_store_events", lambda: ["the cache directory is gone"]):
        stats = _C.store_stats()
        later = stats | {"worker_restarts": stats["worker_restarts"] + 1, "timeouts": stats["timeouts"] + 2}
        with mock.patch.object(_C, "store_stats", lambda: later):
            report = poot_torch.last_report()
    assert report.store["worker_restarts"] == 1 and report.store["timeouts"] == 2
    text = str(report)
    assert "1 worker restart(s), 2 timeout(s)" in text and "the cache directory is gone" in text


@torch.no_grad()
def test_failed_kernels_are_counted():
    data = poot_torch.explain(lambda x: torch.relu(x + 1))(torch.ones(6)).to_json()
    kernels = data["graphs"][0]["kernels"]
    assert data["totals"]["kernels"]["failed"] == 0
    report = poot_torch.last_report()
    report.graphs[0].native["kernels"].append(kernels[0] | {"origin": "failed", "events": ["split"]})
    assert report.totals()["kernels"]["failed"] == 1 and "1 failed and split" in str(report)


def test_weights_are_named_by_their_path():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])
            self.scale = torch.nn.Parameter(torch.ones(4))
            self.register_buffer("shift", torch.ones(4))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x) * self.scale + self.shift
            return x

    seen = []
    real = poot_torch.backend.import_graph

    def spy(gm, kind, weights, *rest, **keywords):
        seen.extend(weights.values())
        return real(gm, kind, weights, *rest, **keywords)

    torch._dynamo.reset()
    with torch.no_grad(), mock.patch.object(poot_torch.backend, "import_graph", spy):
        torch.compile(Net(), backend=poot_torch.backend.poot)(torch.ones(2, 4))
    want = [f"layers.{i}.{p}" for i in range(2) for p in ("weight", "bias")] + ["scale", "shift"]
    assert sorted(seen) == sorted(want)


@torch.no_grad()
def test_recompilation_is_told_with_its_reason():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * 2, backend=poot_torch.backend.poot)
    compiled(torch.ones(3))
    compiled(torch.ones(3, dtype=torch.bfloat16))
    report = poot_torch.last_report()
    assert report.totals()["recompilations"] == 1
    assert "dtype" in report.to_json()["regions"][1]["recompile_reason"]


@torch.no_grad()
def test_recompile_limit_is_told():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=2):
        compiled = torch.compile(lambda x: x * 2, backend=poot_torch.backend.poot, dynamic=False)
        for n in range(3, 7):
            compiled(torch.ones(n))
    report = poot_torch.last_report()
    (frame,) = report.eager_frames
    assert "recompile limit" in frame["reason"] and "test_report.py" in frame["function"]
    assert "runs in eager" in str(report)


def test_a_break_before_which_nothing_was_compiled():
    def inner(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    report = poot_torch.explain(lambda x: inner(x).tanh())(torch.ones(3))
    told = report.to_json()
    assert len([r for r in told["regions"] if r["break"]]) == 1  # inner's
    assert len(told["breaks_without_graph"]) == 1 and told["totals"]["breaks"] == 2
    assert "nothing before it" in str(report)


@torch.no_grad()
def test_sizes_that_the_trace_fixed_are_told():
    def fn(x):
        return (x + torch.ones(6)) * x.shape[0]

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot_torch.backend.poot, dynamic=True)
    for x in (torch.rand(3, 6), torch.rand(4, 6)):
        torch.testing.assert_close(compiled(x), fn(x))
    report = poot_torch.last_report()
    (region,) = report.to_json()["regions"]
    (fixed,) = region["specializations"]
    assert fixed["source"] == "L['x'].size()[1]" and fixed["value"] == 6
    assert "x + torch.ones(6)" in fixed["where"]
    assert "size fixed to 6: L['x'].size()[1]" in str(report)
