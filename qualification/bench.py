"""Steady state of models, paired in one process: poot against eager and PyTorch's default compiler.

    python -m qualification.bench                       # all demo models, fp32 and bf16
    python -m qualification.bench --models bert --dtypes bf16 --rounds 15 --json out.json
    python -m qualification.bench --models resnet50 bert-base --max-autotune

`--max-autotune` adds Inductor's max-autotune with freezing, and poot with freezing, as a pair of their own whose ratio
stands apart. A row gives each peer's time a call, poot's ratio to the faster peer (above 1: poot is faster) as median
and p10-p90 over the rounds, and the error against float64 relative to eager's, which gates the timing. Without a C++
compiler the default compiler cannot run; its column then says so and eager alone is the peer.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
from collections.abc import Iterable

import torch

from poot_torch import demo_models
from poot_torch.accuracy import error_against
from qualification.paired import measure

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
GATE = 0.9  # no model may be slower than this share of the faster peer's speed


BACKENDS = {
    "inductor": {"backend": "inductor"},
    "max-autotune": {"backend": "inductor", "options": {"max_autotune": True, "freezing": True}},
    "poot": {"backend": "poot", "options": {"strict": True}},
    "poot-frozen": {"backend": "poot", "options": {"strict": True, "freeze": True}},
}
OF_POOT = ("poot", "poot-frozen")


def bench_case(
    case: demo_models.Case,
    dtype: torch.dtype,
    *,
    backends: list[str],
    rounds: int,
    block_seconds: float,
    output_pool: bool,
) -> dict:
    reference = case.build(dtype, 0, True)()
    instances = {name: case.build(dtype, 0, False) for name in ("eager", *backends)}
    calls, notes = {"eager": instances["eager"].fn}, []
    for name in backends:
        torch._dynamo.reset()
        how = BACKENDS[name]
        if name in OF_POOT:
            how = how | {"options": how["options"] | {"output_pool": output_pool}}
        fn = torch.compile(instances[name].fn, **how)
        try:
            instances[name].reset()
            fn(*instances[name].args)
        except Exception as e:
            if name in OF_POOT:
                raise
            notes.append(f"{name} does not run here: {type(e).__name__}: {str(e).splitlines()[0]}")
            continue
        calls[name] = fn
    errors = {}
    for name, fn in calls.items():
        instances[name].reset()
        errors[name] = error_against(reference, fn(*instances[name].args))
    timed = {name: (lambda fn=fn, i=instances[name]: fn(*i.args)) for name, fn in calls.items()}

    def reset_all() -> None:
        for name in timed:
            instances[name].reset()

    result = measure(timed, rounds=rounds, block_seconds=block_seconds, between=reset_all)
    ratio, p10, p90 = result.ratio("poot", *(name for name in timed if name in ("eager", "inductor")))
    tuned = result.ratio("poot-frozen", "max-autotune")[0] if "max-autotune" in timed else None
    return {
        "model": case.name,
        "microseconds": {name: result.median(name) * 1e6 for name in timed},
        "ratio": ratio,
        "p10": p10,
        "p90": p90,
        "ratio_to_max_autotune": tuned,
        "error": {name: {"rms": e.rms, "max": e.max} for name, e in errors.items()},
        "accurate": all(errors[name].within(errors["eager"], dtype) for name in OF_POOT if name in errors),
        "notes": notes,
    }


def geometric_mean(ratios: Iterable[float]) -> float:
    """Of ratios capped at 2, so that one fast row does not pay for slow ones."""
    logs = [math.log(min(r, 2.0)) for r in ratios]
    return math.exp(sum(logs) / len(logs))


def show(row: dict, dtype: str) -> None:
    times = "  ".join(f"{name} {us:9.0f} us" for name, us in row["microseconds"].items())
    verdict = "" if row["accurate"] else "  INACCURATE"
    print(
        f"{row['model']:20s} {dtype}  {times}  "
        f"poot/best {row['ratio']:.2f} ({row['p10']:.2f}-{row['p90']:.2f}){verdict}"
        + (f"  frozen/max-autotune {row['ratio_to_max_autotune']:.2f}" if row["ratio_to_max_autotune"] else ""),
        flush=True,
    )
    for note in row["notes"]:
        print(f"{'':20s} {note}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [c.name for c in demo_models.CASES]
    full = [c.name for c in demo_models.FULL_SIZE_CASES]
    parser.add_argument("--models", nargs="+", choices=[*names, *full], default=names)
    parser.add_argument("--max-autotune", action="store_true", help="Inductor's max-autotune with freezing as well")
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--block-seconds", type=float, default=0.15)
    parser.add_argument("--output-pool", action="store_true", help="poot keeps the memory of dead results")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args(argv)
    rows = []
    backends = ["inductor", "poot"] + (["max-autotune", "poot-frozen"] if args.max_autotune else [])
    with torch.no_grad():
        for name in args.models:
            for dtype in args.dtypes:
                row = bench_case(
                    demo_models.case(name),
                    DTYPES[dtype],
                    backends=backends,
                    rounds=args.rounds,
                    block_seconds=args.block_seconds,
                    output_pool=args.output_pool,
                )
                row["dtype"] = dtype
                show(row, dtype)
                rows.append(row)
    print(f"geometric mean {geometric_mean(r['ratio'] for r in rows):.2f}, lowest {min(r['ratio'] for r in rows):.2f}")
    tuned = [r["ratio_to_max_autotune"] for r in rows if r["ratio_to_max_autotune"]]
    if tuned:
        print(f"against max-autotune: geometric mean {geometric_mean(tuned):.2f}, lowest {min(tuned):.2f}")
    if args.json:
        args.json.write_text(
            json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows}, indent=1)
        )
    failed = [r for r in rows if r["ratio"] < GATE or not r["accurate"]]
    for r in failed:
        print(f"below the gate: {r['model']} {r['dtype']}: {r['ratio']:.2f}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
