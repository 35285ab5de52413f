"""One HTML page of what runs and how: the tables of ops, modules, optimizers, models, training, mutation, breaks.

    python -m qualification models --merge m*.jsonl --json models.json
    python -m qualification coverage models.json modules.json --out coverage.html

A bar per suite shows how many subjects are generated, library, fallback, wrong or skipped. Below it, every subject that
is not wholly generated or library, with the reasons. Nothing is left out: what is not listed is generated or library.
"""

from __future__ import annotations

import argparse
import html
import json
import pathlib
from typing import Any

from qualification.page import document
from qualification.table import CLASSES, shares

COLOURS = {
    "right": "#3a7d44",
    "generated": "#3a7d44",
    "library": "#7fb069",
    "broken": "#9bb8d3",
    "fallback": "#e0a030",
    "skipped": "#b0b0b0",
    "wrong": "#b3423a",
}
_WIDTH = 800


def bar(classes: dict[str, int]) -> str:
    """A stacked bar with its counts as SVG."""
    total = max(sum(classes.values()), 1)
    parts, x = [], 0.0
    for name in CLASSES:
        n = classes.get(name, 0)
        if not n:
            continue
        width = _WIDTH * n / total
        label = f"{name} {n}" if width > 90 else ""
        parts.append(
            f"<g><title>{name}: {n} of {total}</title><rect x='{x:.1f}' y='0' width='{width:.1f}' height='26' "
            f"fill='{COLOURS[name]}'/><text x='{x + 6:.1f}' y='18' font-size='13' fill='#fff'>{label}</text></g>"
        )
        x += width
    return f"<svg viewBox='0 0 {_WIDTH} 26' width='{_WIDTH}' role='img'>{''.join(parts)}</svg>"


def _reasons(reasons: dict[str, int], most: int = 3) -> str:
    lines = [f"{html.escape(text[:300])}" + (f" ({n} cases)" if n > 1 else "") for text, n in reasons.items()]
    more = [f"… and {len(lines) - most} more reasons"] if len(lines) > most else []
    return "<br>".join(lines[:most] + more)


def section(table: dict[str, Any]) -> str:
    left = "<td style='text-align:left'>"
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{e['class']}</td>{left}{_reasons(e['reasons'])}</td></tr>"
        for name, e in sorted(table["entries"].items(), key=lambda x: (-CLASSES.index(x[1]["class"]), x[0]))
        if e["class"] not in ("generated", "library", "right") or e["reasons"]
    )
    listed = f"<table><tr><th>subject</th><th>class</th><th>reasons</th></tr>{rows}</table>" if rows else ""
    scope = table.get("scope", {})
    lines = [
        f"{table['subjects']} subjects, {table['cases']} cases through {table['backend']}: {shares(table['classes'])}. "
        f"First calls {table['first_calls_s']:.0f} s.",
        *(f"Operators of {half} graphs: {shares(counts)}." for half, counts in table.get("operators", {}).items()),
        *(f"{part}: {p['subjects']} of {scope.get(part, '?')} subjects ran." for part, p in table["parts"].items()),
        ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in table.get("tally", {}).items()),
        f"Commit {', '.join(table['commits'])}." if table.get("commits") else "",
    ]
    told = "<br>".join(html.escape(line) for line in lines if line)
    return f"<h2>{html.escape(table['suite'])}</h2>{bar(table['classes'])}<p>{told}</p>{listed}"


def scenarios(table: dict[str, Any]) -> str:
    """Of `cache` and `containment`: what happened in each scenario, and whether it ended as it should."""
    rows = "".join(
        f"<tr><td>{html.escape(r['name'])}</td><td>{html.escape(r['failed'] or 'right')}</td>"
        f"<td style='text-align:left'>{html.escape(r.get('told', ''))}</td></tr>"
        for r in table["rows"]
    )
    return f"<h2>{html.escape(table['suite'])}</h2><table>{rows}</table>"


def page(tables: list[dict[str, Any]]) -> str:
    versions = sorted({t["torch"] for t in tables if "torch" in t})
    introduction = (
        f"torch {html.escape(', '.join(versions))}. A subject has the weightiest class of its cases. Broken: without "
        "fallback, but Dynamo broke it into several graphs. Fallback: eager ran some operator, counted and named. "
        "Skipped: Dynamo leaves it to eager, or it has no samples. Of models, tensors are counted whose error against "
        "float64 is beyond the demo's rule (1.5 times eager's and 2 ulp) taken one by one, and how often eager's is "
        "beyond poot's by the same rule."
    )
    return document(
        "poot: what runs, and how", introduction, (section(t) if "entries" in t else scenarios(t) for t in tables)
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "tables", nargs="+", type=pathlib.Path, help="--json files of suites of cases, cache and containment"
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("coverage.html"))
    args = parser.parse_args(argv)
    args.out.write_text(page([json.loads(path.read_text()) for path in args.tables]))
    print(f"written: {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
