"""What the figures of `qualification.gpu` are held to: each gate with its figure, its bar and whether it is met."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from qualification.gpu_models import DECODE
from qualification.gpu_rows import GATED

Gate = dict[str, Any]


def at_least(figure: float, bar: float) -> bool:
    return figure >= bar


def at_most(figure: float, bar: float) -> bool:
    return figure <= bar


def gate(what: str, figure: Any, bar: Any, met: Callable[[Any, Any], bool]) -> Gate:
    return {"what": what, "figure": figure, "bar": bar, "met": met(figure, bar)}


def of_rows(out: dict[str, Any]) -> Iterator[Gate]:
    rows = out["rows"]
    yield gate("memory-bound rows, default compiler's time over poot's, mean", rows["geometric mean"], 1.5, at_least)
    yield gate("memory-bound rows, lowest", min(rows[n]["inductor/poot"][0] for n in GATED), 1.0, at_least)


def of_large(out: dict[str, Any]) -> Iterator[Gate]:
    large = out["large"]
    ratios = {n: r["inductor/poot"][0] for n, r in large.items() if isinstance(r, dict)}
    yield gate("models, default compiler's time over poot's, mean", large["geometric mean"], 1.05, at_least)
    yield gate("models, lowest", min(ratios.values()), 0.95, at_least)
    modes = [large[DECODE], out.get("best", {})]
    best = min(v[0] for r in modes for k, v in r.items() if k.startswith("inductor") and k.endswith("/poot"))
    yield gate("decode, best mode's time over poot's", best, 1.2, at_least)


def of_models(out: dict[str, Any]) -> Iterator[Gate]:
    rows = [r for r in out["models"].values() if isinstance(r, dict)]
    right = sum(bool(r.get("accurate")) and bool(r.get("same")) for r in rows)
    yield gate("demo models, strict, within 1.5 times eager's error or 2 ulp", right, len(rows), at_least)
    fallbacks = sum(r["report"]["classes"]["fallback"] if "report" in r else 1 for r in rows)
    yield gate("demo models, fallbacks", fallbacks, 0, at_most)


def of_first(out: dict[str, Any]) -> Iterator[Gate]:
    rows = out["first"].values()
    yield gate("first call cold, share of the default compiler's", max(r["poot/inductor"] for r in rows), 0.5, at_most)
    again = max(r["poot again/aot_eager"] for r in rows)
    yield gate("first call of a second process, times aot_eager's", again, 1.3, at_most)
    compiled = sum(r["compiled again"] for r in rows)
    yield gate("kernels that second processes compile", compiled, 0, at_most)
    peak = max(r["memory"]["poot/inductor"] for r in rows)
    yield gate("peak memory, share of the default compiler's", peak, 1.0, at_most)


def of_calls(out: dict[str, Any]) -> Iterator[Gate]:
    calls = out["calls"]
    two = calls["two operators, host us a call"]
    yield gate("call of two operators, host us", two["poot"], two["inductor"], at_most)
    yield gate("chain of 300 kernels, host us a kernel", calls["chain"]["host us a kernel"], 1.0, at_most)
    sizes = calls["many sizes"]
    growth = max(sizes[k][-1] - sizes[k][1] for k in ("allocated", "reserved"))
    yield gate("bytes that memory grows by in 1,000 calls at 50 sizes", growth, 0, at_most)
    kept = calls["results kept"]
    yield gate("results that later calls change", kept["changed by later calls"], 0, at_most)


def of_tests(out: dict[str, Any]) -> Iterator[Gate]:
    failed = list(out["tests"]["failed"])
    if "passed" not in out["tests"]["summary"]:
        failed.append(f"test_gpu_faults and all others: {out['tests']['summary'] or 'no answer'}")
    faults = [t for t in failed if "test_gpu_faults" in t]
    yield gate("failed tests of failures on the device", len(faults), 0, at_most)
    yield gate("failed torch tests", len(failed), 0, at_most)


def of_devices(out: dict[str, Any]) -> Iterator[Gate]:
    devices = out["devices"]
    failed = len(devices["failed"]) + (not devices["real device"])
    yield gate("failed tests of the device interface", failed, 0, at_most)


OF = {
    "rows": of_rows,
    "large": of_large,
    "models": of_models,
    "first": of_first,
    "calls": of_calls,
    "tests": of_tests,
    "devices": of_devices,
}


def gates(out: dict[str, Any]) -> list[Gate]:
    """The gates of the sections that `out` holds. One that cannot be judged is not met."""
    found: list[Gate] = []
    for section, of in OF.items():
        if section not in out:
            continue
        try:
            found.extend(of(out))
        except (KeyError, TypeError, ValueError, IndexError) as e:
            why = f"not measured: {type(e).__name__}: {e}"
            found.append({"what": f"section {section}", "figure": why, "bar": None, "met": False})
    return found


def show(found: list[Gate]) -> None:
    for g in found:
        figure = f"{g['figure']:.4g}" if isinstance(g["figure"], float) else g["figure"]
        bar = f"{g['bar']:.4g}" if isinstance(g["bar"], float) else g["bar"]
        print(f"  {'met   ' if g['met'] else 'MISSED'} {g['what']}: {figure} (bar {bar})", flush=True)
