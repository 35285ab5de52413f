"""Results of cases as one table: a class per subject, the reasons, and shares."""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Iterable
from typing import Any

CLASSES = ("right", "generated", "library", "fallback", "skipped", "wrong")  # a later one outweighs an earlier one


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


def _subject(row: dict[str, Any]) -> str:
    return str(row["id"]).rsplit(":", 3)[0]


def table(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Per subject: its class (the weightiest of its cases), counts, and why it is not all generated."""
    by_subject: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        by_subject[_subject(row)].append(row)
    entries = {}
    for subject, cases in sorted(by_subject.items()):
        counts = collections.Counter(c["cls"] for c in cases)
        ran = [c for c in cases if c["cls"] != "skipped"] or cases
        cls = max((c["cls"] for c in ran), key=CLASSES.index)
        reasons = collections.Counter(c["reason"] for c in cases if c["cls"] not in ("right", "generated", "library"))
        entries[subject] = {"class": cls, "cases": dict(counts), "reasons": dict(reasons)}
    totals = collections.Counter(e["class"] for e in entries.values())
    return {
        "subjects": len(entries),
        "cases": sum(len(c) for c in by_subject.values()),
        "classes": {cls: totals[cls] for cls in CLASSES if totals[cls]},
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
        print(f"  {cls:10s} {n:5d}  {100 * n / total:5.1f} %")
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
