"""The report: what it holds, that it follows its schema, and what it says in text."""

import json

import pytest
import torch

import poot_torch.backend
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
    return torch.softmax(y, -1) + torch.special.erfcx(x)


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


def test_contents(report):
    data = report.to_json()
    assert data["totals"]["graphs"] == 2 and data["totals"]["breaks"] == 1
    assert data["totals"]["classes"]["generated"] > 0 and data["totals"]["classes"]["fallback"] == 1
    assert 0 < data["totals"]["dispatches_after"] <= data["totals"]["dispatches_before"]
    assert sum(data["totals"]["kernels"].values()) > 0
    (fallback,) = report.fallbacks
    assert fallback.op == "aten.special_erfcx.default" and "test_report.py" in fallback.source
    sources = [o["source"] for g in data["graphs"] for k in g["kernels"] for o in k["origins"]]
    assert any("torch.relu(x + 1)" in s for s in sources)
    assert {"import", "passes", "plan", "generate", "compile"} <= set(data["totals"]["phases_ms"])


def test_text(report):
    text = str(report)
    assert "2 graph(s), 1 graph break(s)" in text
    assert "fallback aten.special_erfcx.default(f32): no lowering" in text
    assert "graph_break" in text and "test_report.py" in text


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
