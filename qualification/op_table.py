"""Results of `ops` as one table: a class per operator, the reasons, and shares."""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Iterable
from typing import Any

CLASSES = ("generated", "library", "fallback", "skipped", "wrong")  # a later one outweighs an earlier one


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


def table(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Per operator: its class (the weightiest of its cases), counts, and why it is not all generated."""
    by_op: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        by_op[row["id"].split(":")[0]].append(row)
    entries = {}
    for op, cases in sorted(by_op.items()):
        counts = collections.Counter(c["cls"] for c in cases)
        ran = [c for c in cases if c["cls"] != "skipped"] or cases
        cls = max((c["cls"] for c in ran), key=CLASSES.index)
        reasons = collections.Counter(c["reason"] for c in cases if c["cls"] not in ("generated", "library"))
        entries[op] = {"class": cls, "cases": dict(counts), "reasons": dict(reasons)}
    totals = collections.Counter(e["class"] for e in entries.values())
    return {
        "operators": len(entries),
        "cases": sum(len(c) for c in by_op.values()),
        "classes": {cls: totals[cls] for cls in CLASSES},
        "fallbacks": dict(_fallbacks(rows for c in by_op.values() for rows in c).most_common()),
        "entries": entries,
    }


def _fallbacks(rows: Iterable[dict[str, Any]]) -> collections.Counter[str]:
    """How many operators of op_db meet each fallback."""
    met: dict[str, set[str]] = collections.defaultdict(set)
    for row in rows:
        for op, reason in row.get("fallbacks", ()):
            met[f"{op}: {reason}"].add(row["id"].split(":")[0])
    return collections.Counter({k: len(v) for k, v in met.items()})


def show(summary: dict[str, Any], rows: Iterable[dict[str, Any]], most: int = 25) -> None:
    total = max(summary["operators"], 1)
    print(f"\n{summary['operators']} operators, {summary['cases']} cases")
    for cls, n in summary["classes"].items():
        print(f"  {cls:10s} {n:5d}  {100 * n / total:5.1f} %")
    wrong = [r for r in rows if r["cls"] == "wrong"]
    if wrong:
        print("\nwrong:")
    for row in wrong:
        mark = " (PyTorch's pipeline too)" if row.get("upstream") else ""
        print(f"  {row['id']}{mark}: {row['reason'][:200]}")
    if summary["fallbacks"]:
        print("\ncommonest fallbacks (operators that meet them):")
    for name, n in list(summary["fallbacks"].items())[:most]:
        print(f"  {n:4d}  {name[:150]}")
