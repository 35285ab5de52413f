"""One HTML page with plots from benchmark results.

    python -m qualification.bench --json models.json
    python -m qualification.memory_bound --json rows.json
    python -m qualification.page models.json rows.json --out page.html

Every ratio is the faster peer's time over poot's, measured side by side: right of the line at 1, poot is faster. The
whisker spans the 10th to the 90th percentile of the rounds. Plots are SVG inside the page: it needs no other file.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import io
import json
import pathlib
import re
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Bar:
    group: str  # one plot a group
    label: str
    ratio: float
    p10: float
    p90: float
    microseconds: dict[str, float]


def bars_of(data: dict) -> Iterable[Bar]:
    """Of a file of `qualification.bench` or `qualification.memory_bound`; ValueError for another."""
    for row in data["rows"]:
        if "model" in row:
            yield Bar("Models", f"{row['model']} {row['dtype']}", **_figures(row))
        elif "row" in row:
            for how in ("hot", "rotating"):
                if how in row:
                    yield Bar(f"Kernels, {row['size']}, {how}", f"{row['row']} {row['dtype']}", **_figures(row[how]))
        else:
            raise ValueError("a row that is neither a model's nor a kernel's: give files of bench or memory_bound")


def _figures(measured: dict) -> dict:
    return {name: measured[name] for name in ("ratio", "p10", "p90", "microseconds")}


def plot(bars: list[Bar]) -> str:
    """SVG of one horizontal bar a row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.8 + 0.28 * len(bars)), layout="constrained")
    places = range(len(bars))[::-1]
    spans = [[max(0.0, b.ratio - b.p10) for b in bars], [max(0.0, b.p90 - b.ratio) for b in bars]]
    colours = ["#3a7d44" if b.ratio >= 1 else "#b3423a" for b in bars]
    axes.barh(places, [b.ratio for b in bars], color=colours, xerr=spans, error_kw={"lw": 0.8, "ecolor": "#444"})
    axes.axvline(1, color="#444", lw=0.8)
    axes.set_yticks(places, [b.label for b in bars], fontsize=8)
    axes.set_xlabel("faster peer's time / poot's time", fontsize=8)
    axes.set_xlim(left=0)
    text = io.StringIO()
    figure.savefig(text, format="svg")
    pyplot.close(figure)
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.DOTALL)


def table(bars: list[Bar]) -> str:
    names = list(dict.fromkeys(name for b in bars for name in b.microseconds))
    head = "".join(f"<th>{html.escape(n)}, µs</th>" for n in names)
    lines = [
        f"<tr><td>{html.escape(b.label)}</td>"
        + "".join(f"<td>{b.microseconds[n]:.0f}</td>" if n in b.microseconds else "<td></td>" for n in names)
        + f"<td>{b.ratio:.2f} ({b.p10:.2f}–{b.p90:.2f})</td></tr>"
        for b in bars
    ]
    return f"<table><tr><th></th>{head}<th>ratio (p10–p90)</th></tr>{''.join(lines)}</table>"


STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:2px 10px;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child{text-align:left}svg{max-width:100%;height:auto}"
)


def document(title: str, introduction: str, sections: Iterable[str]) -> str:
    """A whole page; the introduction and the sections are HTML."""
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(title)}</title>"
        f"<style>{STYLE}</style><h1>{html.escape(title)}</h1><p>{introduction}</p>{''.join(sections)}</html>\n"
    )


def page(files: list[dict]) -> str:
    groups: dict[str, list[Bar]] = {}
    for data in files:
        for bar in bars_of(data):
            groups.setdefault(bar.group, []).append(bar)
    versions = sorted({f"torch {d['torch']}, {d['threads']} threads" for d in files})
    sections = [f"<h2>{html.escape(name)}</h2>{plot(bars)}{table(bars)}" for name, bars in groups.items()]
    introduction = (
        f"{html.escape('; '.join(versions))}. Ratios are the faster peer's time over poot's, paired in one process: "
        "above 1, poot is faster. Whiskers: 10th to 90th percentile of the rounds."
    )
    return document("poot: benchmarks", introduction, sections)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=pathlib.Path, help="JSON of bench or memory_bound")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("page.html"))
    args = parser.parse_args(argv)
    args.out.write_text(page([json.loads(path.read_text()) for path in args.results]))
    print(f"written: {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
