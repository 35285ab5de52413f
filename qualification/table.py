"""Results of cases as one table: a class per subject, the reasons, and shares."""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Iterable
from typing import Any

OPERATOR_CLASSES = ("generated", "library", "fallback")  # the rest dispatch nothing
CLASSES = (
    "right",
    "generated",
    "library",
    "broken",
    "fallback",
    "skipped",
    "wrong",
)  # a later one outweighs an earlier one


def read(paths: Iterable[pathlib.Path]) -> list[dict[str, Any]]:
    """Case results of one or several shards, the last of each name; a line cut short by a kill is dropped."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            if "id" in row:
                found[row["id"]] = row
    return list(found.values())


def _part(row: dict[str, Any]) -> str:
    _, dtype, mode, _ = str(row["id"]).rsplit(":", 3)
    return f"{mode} {dtype}"


def _weightiest(cases: list[dict[str, Any]], what: str = "cls") -> str:
    ran = [c for c in cases if c["cls"] != "skipped"] or cases
    return max((c[what] for c in ran), key=CLASSES.index)


def _counted(classes: Iterable[str]) -> dict[str, int]:
    counts = collections.Counter(classes)
    return {cls: counts[cls] for cls in CLASSES if counts[cls]}


def _by_subject(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        found[_subject(row)].append(row)
    return dict(sorted(found.items()))


def _share(cases: list[dict[str, Any]], what: str = "cls") -> dict[str, Any]:
    subjects = _by_subject(cases)
    classes = _counted(_weightiest(c, what) for c in subjects.values())
    return {"subjects": len(subjects), "cases": len(cases), "classes": classes}


def _parts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Subjects by class, for each mode and dtype, and by the class of their backward graphs alone."""
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        found[_part(row)].append(row)
    parts = {name: _share(cases) for name, cases in sorted(found.items())}
    backward = [r for r in rows if r.get("backward") and r["cls"] not in ("wrong", "skipped")]
    return parts | ({"backward graphs": _share(backward, "backward")} if backward else {})


def _operators(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Operators by class, of forward and inference graphs and of backward graphs."""
    found = {"forward": collections.Counter[str](), "backward": collections.Counter[str]()}
    for row in rows:
        backward = row.get("backward_counts", {})
        found["backward"].update(backward)
        found["forward"].update({c: n - backward.get(c, 0) for c, n in row.get("counts", {}).items()})
    return {half: {c: counts[c] for c in OPERATOR_CLASSES} for half, counts in found.items() if counts.total()}


def _tally(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    found = collections.Counter[str]()
    for row in rows:
        found.update(row.get("tally", {}))
    return dict(found)


def _subject(row: dict[str, Any]) -> str:
    return str(row["id"]).rsplit(":", 3)[0]


def table(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Per subject: its class (the weightiest of its cases), counts, and why it is not all generated; per mode and
    dtype: subjects by class."""
    rows = list(rows)
    by_subject = _by_subject(rows)
    entries = {}
    for subject, cases in by_subject.items():
        reasons = collections.Counter(c["reason"] for c in cases if c["cls"] not in ("right", "generated", "library"))
        cls, counts = _weightiest(cases), _counted(c["cls"] for c in cases)
        entries[subject] = {"class": cls, "cases": counts, "reasons": dict(reasons.most_common(6))}
        backward = [c for c in cases if c.get("backward") and c["cls"] not in ("wrong", "skipped")]
        if backward:
            entries[subject]["backward"] = _weightiest(backward, "backward")
    return {
        "subjects": len(entries),
        "cases": sum(len(c) for c in by_subject.values()),
        "classes": _counted(e["class"] for e in entries.values()),
        "case_classes": _counted(r["cls"] for r in rows),
        "parts": _parts(rows),
        "operators": _operators(rows),
        "tally": _tally(rows),
        "commits": sorted({r["commit"] for r in rows if r.get("commit")}),
        "first_calls_s": round(sum(c.get("first_call_s", 0.0) for cases in by_subject.values() for c in cases), 1),
        "fallbacks": dict(_fallbacks(rows).most_common()),
        "wrong": [{k: r.get(k) for k in ("id", "reason", "upstream")} for r in rows if r["cls"] == "wrong"],
        "skipped": _skipped(rows),
        "entries": entries,
    }


def _fallbacks(rows: Iterable[dict[str, Any]]) -> collections.Counter[str]:
    """How many subjects meet each fallback."""
    met: dict[str, set[str]] = collections.defaultdict(set)
    for row in rows:
        for op, reason in row.get("fallbacks", ()):
            met[f"{op}: {reason}"].add(_subject(row))
    return collections.Counter({k: len(v) for k, v in met.items()})


def _skipped(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The subjects with skipped cases, by the beginning of the reason."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for row in rows:
        if row["cls"] == "skipped":
            found[" ".join(row["reason"].split())[:60].partition(": ")[0]].add(_subject(row))
    return {why: sorted(subjects) for why, subjects in sorted(found.items())}


def show(summary: dict[str, Any], rows: Iterable[dict[str, Any]], most: int = 25) -> None:
    total = max(summary["subjects"], 1)
    print(f"\n{summary['subjects']} subjects, {summary['cases']} cases, first calls {summary['first_calls_s']} s")
    for cls, n in summary["classes"].items():
        print(f"  {cls:10s} {n:5d}  {100 * n / total:5.1f} %   cases {summary['case_classes'].get(cls, 0):6d}")
    for half, counts in summary["operators"].items():
        print(f"  operators of {half} graphs: {shares(counts)}")
    for name, n in summary["tally"].items():
        print(f"  {name}: {n}")
    wrong = [r for r in rows if r["cls"] == "wrong"]
    if wrong:
        print("\nwrong:")
    for row in wrong:
        mark = " (PyTorch's pipeline too)" if row.get("upstream") else ""
        print(f"  {row['id']}{mark}: {row['reason'][:200]}")
    if summary["fallbacks"]:
        print("\ncommonest fallbacks (subjects that meet them):")
    for name, n in list(summary["fallbacks"].items())[:most]:
        print(f"  {n:4d}  {name[:150]}")


def shares(counts: dict[str, int]) -> str:
    total = max(sum(counts.values()), 1)
    return ", ".join(f"{n} {name} ({100 * n / total:.1f} %)" for name, n in counts.items())


# ---- the page


def _line(cells: Iterable[Any]) -> str:
    return "| " + " | ".join(" ".join(str(c).split()).replace("|", "\\|") for c in cells) + " |"


def _shares(classes: dict[str, int]) -> str:
    total = max(sum(n for cls, n in classes.items() if cls != "skipped"), 1)
    generated, library = classes.get("generated", 0), classes.get("library", 0)
    return f"{100 * generated / total:.1f} % generated, {100 * (generated + library) / total:.1f} % with library calls"


def page(suite: str, summary: dict[str, Any], note: str = "") -> str:
    """The summary as Markdown: shares by mode and dtype, each fallback, what is wrong or skipped, each subject."""
    backward = summary["parts"].get("backward graphs")
    lines = [
        f"# {suite}",
        "",
        f"Made by `python -m qualification {suite} --merge FILES --page FILE`. A subject has the weightiest class of",
        "its cases: generated < library < fallback < wrong; skipped are those that eager or the database refuses.",
        *([note] if note else []),
        "",
        f"Of the subjects that are not skipped, {_shares(summary['classes'])}; of their cases,",
        f"{_shares(summary['case_classes'])}"
        + (f"; of the subjects' backward graphs, {_shares(backward['classes'])}." if backward else "."),
        "",
        _line(("part", "subjects", "of", "cases", *CLASSES)),
        _line(["---"] * (4 + len(CLASSES))),
    ]
    scope = summary.get("scope", {})
    for name, part in {"all": summary, **summary["parts"]}.items():
        counts = (part["classes"].get(c, 0) for c in CLASSES)
        lines.append(_line((name, part["subjects"], scope.get(name, ""), part["cases"], *counts)))
    lines += ["", *(f"Operators of {half} graphs: {shares(c)}." for half, c in summary["operators"].items())]
    lines += ["", "## Fallbacks", "", _line(("subjects", "what runs in eager, and why")), _line(("---", "---"))]
    lines += [_line((n, what[:240])) for what, n in summary["fallbacks"].items()]
    if summary["wrong"]:
        lines += ["", "## Wrong", "", _line(("case", "in PyTorch's own pipeline too", "why")), _line(["---"] * 3)]
        lines += [
            _line((r["id"], "yes" if r["upstream"] else "no", r["reason"][:240]))
            for r in sorted(summary["wrong"], key=lambda r: r["id"])
        ]
    if summary["skipped"]:
        lines += ["", "## Skipped", "", _line(("why", "subjects")), _line(["---"] * 2)]
        lines += [_line((why, ", ".join(subjects))) for why, subjects in summary["skipped"].items()]
    lines += [
        "",
        "## Subjects",
        "",
        _line(("subject", "class", "backward", *CLASSES, "reasons")),
        _line(["---"] * (4 + len(CLASSES))),
    ]
    for subject, entry in summary["entries"].items():
        reasons = "; ".join(r[:160] for r in list(entry["reasons"])[:2])
        counts = (entry["cases"].get(c, 0) for c in CLASSES)
        lines.append(_line((subject, entry["class"], entry.get("backward", ""), *counts, reasons)))
    return "\n".join(lines) + "\n"
