"""The report as text, from its JSON form."""

from __future__ import annotations

import collections
from typing import Any


def render(data: dict[str, Any]) -> str:
    lines = _totals(data["totals"]) + _pool(data["output_pool"]) + _store(data["store"])
    for f in data["eager_frames"]:
        lines.append(f"  runs in eager: {f['function']}: {f['reason']}")
        if f["recompile_reason"]:
            lines.append(f"    {f['recompile_reason']}")
    lines += [f"  graph break with nothing before it to compile: {reason}" for reason in data["breaks_without_graph"]]
    for number, region in enumerate(data["regions"]):
        lines += ["", *_region(number, region)]
        for graph in data["graphs"]:
            if graph["region"] == number:
                lines += _graph(graph)
    return "\n".join(lines)


def _totals(t: dict[str, Any]) -> list[str]:
    c, k = t["classes"], t["kernels"]
    phases = ", ".join(f"{name} {ms:.1f}" for name, ms in t["phases_ms"].items())
    return [
        f"poot: {t['graphs']} graph(s), {t['breaks']} graph break(s), {t['recompilations']} recompilation(s)",
        "  operators    "
        + ", ".join(f"{c.get(name, 0)} {name}" for name in ("generated", "library", "fallback", "none")),
        f"  dispatches   {t['dispatches_before']} -> {t['dispatches_after']}",
        f"  kernels      {k['compiled']} compiled, {k['disk']} from disk, {k['memory']} from memory"
        + (f", {k['failed']} failed and split" if k["failed"] else ""),
        f"  transient    {_bytes(t['peak_transient_bytes'])} at most",
        f"  time, ms     {phases or 'none'}",
    ]


def _pool(p: dict[str, int]) -> list[str]:
    if not p["fresh"]:
        return []
    return [
        f"  output pool  {_bytes(p['live_bytes'])} in use, {_bytes(p['idle_bytes'])} kept, "
        f"{p['reused']} of {p['reused'] + p['fresh']} blocks reused"
    ]


def _store(s: dict[str, Any]) -> list[str]:
    lines = []
    if s["worker_restarts"] or s["timeouts"]:
        lines.append(f"  compiler     {s['worker_restarts']} worker restart(s), {s['timeouts']} timeout(s)")
    if s["cache_write_failures"]:
        lines.append(f"  cache        {s['cache_write_failures']} kernel(s) could not be written")
    return lines + [f"    {event}" for event in s["events"]]


def _bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"


def _region(number: int, region: dict[str, Any]) -> list[str]:
    lines = [f"region {number}, compile id {region['compile_id'] or 'none'}"]
    if region["recompilation"]:
        lines.append(f"  recompiled: {region['recompile_reason'] or 'a guard failed'}")
    lines += [f"  unused draw, made all the same for eager's generator state: {s}" for s in region["kept_draws"]]
    lines += [f"  unused call, dropped, which may draw numbers: {s}" for s in region["unclear_draws"]]
    for s in region["specializations"]:
        where = f"  at {s['where']}" if s["where"] else ""
        lines.append(f"  size fixed to {s['value']}: {s['source']}{where}")
    if region["break"]:
        lines.append(f"  graph break: {region['break']['reason']}")
        lines += [f"    {s}" for s in region["break"]["sources"]]
    return lines


def _operators(g: dict[str, Any]) -> list[str]:
    """Which operators are of which class: "generated: add x2, mul"."""
    by_class: dict[str, collections.Counter[str]] = {}
    for op in g["ops"]:
        by_class.setdefault(op["class"], collections.Counter())[op["op"]] += 1
    return [
        f"    {name}: " + ", ".join(f"{op} x{n}" if n > 1 else op for op, n in sorted(by_class[name].items()))
        for name in g["classes"]
        if name in by_class
    ]


def _graph(g: dict[str, Any]) -> list[str]:
    counts = ", ".join(f"{n} {name}" for name, n in g["classes"].items() if n)
    lines = [
        f"  {g['kind']} graph: {g['nodes']} nodes; {counts or 'no operators'}; "
        f"dispatches {g['dispatches_before']} -> {g['dispatches_after']}"
    ]
    for f in g["fallbacks"]:
        where = f"  at {f['source']}" if f["source"] else ""
        lines.append(f"    fallback {f['op']}({', '.join(f['dtypes'])}): {f['reason']}{where}")
    lines += _operators(g)
    for f in g["fusions"]:
        lines.append(f"    fused by {f['pass']}: {f['eqns']} operators as {f['kernel']}")
    for k in g["kernels"]:
        lines.append(f"    kernel {k['name']}: {k['launches']} launch(es), {k['origin']}, {k['ms']:.1f} ms")
        lines += [f"      {event}" for event in k["events"]]
    for d in (*g["declines"], *g["numerical_declines"]):
        lines.append(f"    not fused by {d['pass']}: {d['value']}: {d['reason']}")
    for c in g["contractions"]:
        lines.append(f"    product {c['value']}: {c['class']}, {c['reason']}")
    for c in g["layout_copies"]:
        lines.append(f"    layout copy of {c['value']} ({c['bytes']} bytes): {c['reason']}")
    return lines
