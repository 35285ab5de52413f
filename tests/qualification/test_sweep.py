"""What every suite of cases shares: names, resuming, the table, reproducers."""

import importlib
import json

import pytest

from qualification import breaks, coverage, sweep, table
from qualification.case_worker import without_folders
from qualification.cases import Group, narrowed

SUITES = ("modules", "optimizers", "models", "training", "mutation", "dynamic", "breaks")


@pytest.mark.parametrize("name", SUITES)
def test_names_go_there_and_back_and_have_a_reproducer(name):
    suite = importlib.import_module(f"qualification.{name}").SUITE
    group = suite.scope()[0]
    parsed, index = suite.parse(group.case(0))
    assert (parsed.subject, parsed.dtype, parsed.mode, index) == (group.subject, group.dtype, group.mode, 0)
    compile(suite.reproducer(group, 0), name, "exec")
    for wrong in ("", "a:b", f"{group.subject}:f32:no_mode:0", f"nobody:{group.dtype}:{group.mode}:0"):
        with pytest.raises(ValueError):
            suite.parse(wrong)


@pytest.mark.parametrize(("suite", "subject"), [("mutation", "write_to_argument"), ("dynamic", "pieces")])
def test_a_reproducer_runs_without_the_suite(suite, subject, capsys):
    suite = importlib.import_module(f"qualification.{suite}").SUITE
    group, index = suite.parse(f"{subject}:f32:{suite.scope()[0].mode}:0")
    exec(compile(suite.reproducer(group, index), subject, "exec"), {"__name__": "reproducer"})
    lines = capsys.readouterr().out.splitlines()
    assert lines and lines[: len(lines) // 2] == lines[len(lines) // 2 :], "eager's lines, then poot's"


def test_resuming_goes_on_after_the_last_whole_line(tmp_path):
    groups = [Group("a", "f32", "static", 3), Group("b", "f32", "static", 2)]
    file = tmp_path / "results.jsonl"
    lines = [{"id": "a:f32:static:0", "cls": "generated"}, {"id": "b:f32:static:0", "cls": "wrong", "reason": "x"}]
    lines += [{"finished": ["b", "f32", "static", 2]}]
    file.write_text("".join(json.dumps(x) + "\n" for x in lines) + '{"id": "a:f32:sta')
    assert sweep.unfinished(groups, file) == [(groups[0], 1)]
    assert sweep.unfinished(groups, None) == [(g, 0) for g in groups]
    assert [r["id"] for r in table.read([file])] == ["a:f32:static:0", "b:f32:static:0"]


def test_a_subject_has_the_weightiest_class_of_its_cases():
    rows = [
        {"id": "x:f32:m:0", "cls": "generated", "reason": "", "first_call_s": 0.5},
        {"id": "x:f32:m:1", "cls": "library", "reason": "", "first_call_s": 0.25},
        {"id": "y:f32:m:0", "cls": "fallback", "reason": "op: why", "fallbacks": [["op", "why"]]},
        {"id": "y:f32:m:1", "cls": "skipped", "reason": "no samples"},
    ]
    summary = table.table(rows)
    assert {n: e["class"] for n, e in summary["entries"].items()} == {"x": "library", "y": "fallback"}
    assert summary["first_calls_s"] == 0.8 and summary["fallbacks"] == {"op: why": 1}
    text = coverage.page([{"suite": "ops", "torch": "2.13", "backend": "poot", **summary}])
    assert "op: why" in text and "<svg" in text and ">x<" not in text


def test_operators_commits_and_the_covered_part():
    rows = [
        {"id": "x:f32:m:0", "cls": "library", "reason": "", "counts": {"generated": 5, "library": 2, "none": 3}}
        | {"backward_counts": {"generated": 2, "none": 1}, "tally": {"tensors": 4}, "commit": "a1"},
        {"id": "y:f32:m:0", "cls": "generated", "reason": "", "counts": {"generated": 1}, "tally": {"tensors": 3}},
    ]
    summary = table.table(rows)
    assert summary["operators"] == {
        "forward": {"generated": 4, "library": 2, "fallback": 0},
        "backward": {"generated": 2, "library": 0, "fallback": 0},
    }
    assert summary["tally"] == {"tensors": 7} and summary["commits"] == ["a1"]
    text = coverage.page([{"suite": "modules", "torch": "2.13", "backend": "poot", "scope": {"m f32": 4}, **summary}])
    assert "2 of 4 subjects" in text and "operators of backward graphs: 2 generated (100.0 %)" in text.lower()


def test_narrowing():
    groups = [Group("add", "f32", "static"), Group("norm.fro", "f64", "grad"), Group("norm.inf", "f32", "grad", 5)]
    assert narrowed(groups, only=["norm"], samples=3) == [
        Group("norm.fro", "f64", "grad", 3),
        Group("norm.inf", "f32", "grad", 3),
    ]
    assert narrowed(groups, dtypes=["f32"], modes=["static"]) == groups[:1]


def test_answers_name_no_folder_of_this_machine():
    told = f"break at {breaks.__file__}:7 and /opt/x/site-packages/transformers/a.py:1, a/b of 3/4"
    assert without_folders(told) == "break at qualification/breaks.py:7 and transformers/a.py:1, a/b of 3/4"
