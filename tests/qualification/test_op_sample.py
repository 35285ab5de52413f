"""The fixed list of op_db's cases, which `python -m qualification ops --sample` runs, and the table of results."""

import json

import pytest

from qualification import ops, sweep, table

SAMPLES = sweep.pathlib.Path(sweep.__file__).with_name("samples") / "ops.json"


def test_the_list_names_cases_once_and_none_is_expected_wrong():
    classes = json.loads(SAMPLES.read_text())
    assert len(classes) >= 1500
    assert set(classes.values()) <= {"generated", "library", "fallback", "skipped"}
    cases = [ops.SUITE.parse(name) for name in classes]
    work = [(sweep.Group(g.subject, g.dtype, g.mode, i + 1), i) for g, i in cases]
    units = sweep.units(ops.SUITE, work)
    assert sorted(g.case(i) for unit in units for g, i in unit) == sorted(classes)
    for unit in units:
        assert len({g.mode for g, _ in unit}) == 1
        assert len({(g.subject, g.dtype) for g, _ in unit}) == len(unit)


def test_a_name_that_is_no_case_is_refused():
    for name in ("add:f32:static", "add:f31:static:0", "add:f32:odd:0", "nothing:f32:static:0"):
        with pytest.raises(ValueError):
            ops.SUITE.parse(name)


def test_backward_graphs_are_counted_apart():
    rows = [
        {"id": "mm:f32:grad:0", "cls": "library", "backward": "library", "reason": ""},
        {"id": "mm:f32:grad:1", "cls": "library", "backward": "generated", "reason": ""},
        {"id": "add:f32:grad:0", "cls": "generated", "backward": "generated", "reason": ""},
        {"id": "add:f32:static:0", "cls": "generated", "backward": "", "reason": ""},
        {"id": "sub:f32:grad:0", "cls": "fallback", "backward": "generated", "reason": ""},
        {"id": "mul:f32:grad:0", "cls": "wrong", "backward": "fallback", "reason": ""},
    ]
    summary = table.table(rows)
    part = summary["parts"]["backward graphs"]
    assert part == {"subjects": 3, "cases": 4, "classes": {"generated": 2, "library": 1}}
    assert summary["entries"]["mm"]["backward"] == "library" and "backward" not in summary["entries"]["mul"]
    page = table.page("ops", summary, "At some commit.")
    assert "subjects' backward graphs, 66.7 % generated, 100.0 % with library calls." in page
    assert "\nAt some commit.\n" in page


def test_table_and_page(tmp_path):
    rows = [
        {"id": "add:f32:static:0", "cls": "generated", "reason": ""},
        {"id": "add:c64:static:0", "cls": "library", "reason": ""},
        {"id": "sub:f32:static:0", "cls": "skipped", "reason": "none"},
        {"id": "mul:f32:grad:0", "cls": "wrong", "reason": "a|b"},
    ]
    shards = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    shards[0].write_text("\n".join(json.dumps(r) for r in rows[:2]) + '\n{"id": "cut')
    shards[1].write_text("\n".join(json.dumps(r) for r in rows[1:]) + "\n")
    summary = table.table(table.read(shards))
    assert summary["cases"] == 4
    classes = {subject: e["class"] for subject, e in summary["entries"].items()}
    assert classes == {"add": "library", "mul": "wrong", "sub": "skipped"}
    assert summary["parts"]["static f32"]["classes"] == {"generated": 1, "skipped": 1}
    assert summary["wrong"] == [{"id": "mul:f32:grad:0", "reason": "a|b", "upstream": None}]
    assert summary["skipped"] == {"none": ["sub"]}
    assert "| mul | wrong |  | 0 | 0 | 0 | 0 | 0 | 0 | 1 | a\\|b |" in table.page("ops", summary)
