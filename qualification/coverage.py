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

from qualification.page import STYLE
from qualification.table import CLASSES

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


def _shares(classes: dict[str, int]) -> str:
    total = max(sum(classes.values()), 1)
    return ", ".join(f"{n} {name} ({100 * n / total:.1f} %)" for name, n in classes.items())


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
    return (
        f"<h2>{html.escape(table['suite'])}</h2>{bar(table['classes'])}"
        f"<p>{table['subjects']} subjects, {table['cases']} cases through {html.escape(table['backend'])}: "
        f"{_shares(table['classes'])}. First calls {table['first_calls_s']:.0f} s.</p>{listed}"
    )


def page(tables: list[dict[str, Any]]) -> str:
    versions = sorted({t["torch"] for t in tables})
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>poot: what runs</title>"
        f"<style>{STYLE}</style><h1>poot: what runs, and how</h1><p>torch {html.escape(', '.join(versions))}. "
        "A subject has the weightiest class of its cases. Broken: without fallback, but Dynamo broke it into "
        "several graphs. Fallback: eager ran some operator, counted and named. Skipped: Dynamo leaves it to eager, or "
        "it has no samples.</p>"
        f"{''.join(section(t) for t in tables)}</html>\n"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=pathlib.Path, help="--json files of suites of cases")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("coverage.html"))
    args = parser.parse_args(argv)
    args.out.write_text(page([json.loads(path.read_text()) for path in args.tables]))
    print(f"written: {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
