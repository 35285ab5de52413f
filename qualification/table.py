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


def _weightiest(cases: list[dict[str, Any]]) -> str:
    ran = [c for c in cases if c["cls"] != "skipped"] or cases
    return max((c["cls"] for c in ran), key=CLASSES.index)


def _counted(classes: Iterable[str]) -> dict[str, int]:
    counts = collections.Counter(classes)
    return {cls: counts[cls] for cls in CLASSES if counts[cls]}


def _by_subject(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        found[_subject(row)].append(row)
    return dict(sorted(found.items()))


def _parts(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Subjects by class, for each mode and dtype."""
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        found[_part(row)].append(row)
    parts = {}
    for name, cases in sorted(found.items()):
        subjects = _by_subject(cases)
        classes = _counted(_weightiest(c) for c in subjects.values())
        parts[name] = {"subjects": len(subjects), "cases": len(cases), "classes": classes}
    return parts


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
        "fallbacks": dict(_fallbacks(rows for c in by_subject.values() for rows in c).most_common()),
        "entries": entries,
    }


def _fallbacks(rows: Iterable[dict[str, Any]]) -> collections.Counter[str]:
    """How many subjects meet each fallback."""
    met: dict[str, set[str]] = collections.defaultdict(set)
    for row in rows:
        for op, reason in row.get("fallbacks", ()):
            met[f"{op}: {reason}"].add(_subject(row))
    return collections.Counter({k: len(v) for k, v in met.items()})


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


def page(suite: str, summary: dict[str, Any]) -> str:
    """The summary as Markdown: shares by mode and dtype, each fallback, each subject."""
    lines = [
        f"# {suite}",
        "",
        f"Made by `python -m qualification {suite} --merge FILES --page FILE`. A subject has the weightiest class of",
        "its cases: generated < library < fallback < wrong; skipped are those that eager or the database refuses.",
        "",
        _line(("part", "subjects", "cases", *CLASSES)),
        _line(["---"] * (3 + len(CLASSES))),
    ]
    for name, part in {"all": summary, **summary["parts"]}.items():
        lines.append(_line((name, part["subjects"], part["cases"], *(part["classes"].get(c, 0) for c in CLASSES))))
    lines += ["", *(f"Operators of {half} graphs: {shares(c)}." for half, c in summary["operators"].items())]
    lines += ["", "## Fallbacks", "", _line(("subjects", "what runs in eager, and why")), _line(("---", "---"))]
    lines += [_line((n, what[:240])) for what, n in summary["fallbacks"].items()]
    lines += [
        "",
        "## Subjects",
        "",
        _line(("subject", "class", *CLASSES, "reasons")),
        _line(["---"] * (3 + len(CLASSES))),
    ]
    for subject, entry in summary["entries"].items():
        reasons = "; ".join(r[:160] for r in list(entry["reasons"])[:2])
        lines.append(_line((subject, entry["class"], *(entry["cases"].get(c, 0) for c in CLASSES), reasons)))
    return "\n".join(lines) + "\n"
