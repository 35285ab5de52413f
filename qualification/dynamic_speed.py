"""Steady state of BERT compiled with symbolic sizes beside the program compiled for those sizes, paired.

    python -m qualification.dynamic_speed [--dtypes bf16] [--rounds 15] [--json out.json]

One dynamic program serves every size; each static one is compiled for its own. The gate: dynamic at most 1.15 times the
static program's time.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import torch

from poot_torch import demo_models
from poot_torch.accuracy import error_against
from qualification.paired import measure

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SIZES = ((4, 128), (2, 37), (8, 64))  # batch, tokens
GATE = 1.15


def bench_dtype(dtype: torch.dtype, rounds: int, block_seconds: float) -> list[dict]:
    instance, reference = (demo_models.case("bert").build(dtype, 0, wide) for wide in (False, True))
    ids, mask = instance.args
    torch._dynamo.reset()
    options = {"strict": True}
    dynamic = torch.compile(instance.fn, backend="poot", dynamic=True, options=options)
    rows = []
    for batch, tokens in SIZES:
        args = (ids.repeat(2, 1)[:batch, :tokens].contiguous(), mask.repeat(2, 1)[:batch, :tokens].contiguous())
        # A function of its own, so that the sizes of one static program are no news to another.
        static = torch.compile(lambda i, m: instance.fn(i, m), backend="poot", dynamic=False, options=options)
        exact = reference.fn(*args)
        allowed = error_against(exact, instance.fn(*args))
        for name, fn in (("static", static), ("dynamic", dynamic)):
            error = error_against(exact, fn(*args))
            assert error.within(allowed, dtype), f"{name} {args[0].shape}: error {error}, eager's {allowed}"
        calls = {"static": lambda s=static, a=args: s(*a), "dynamic": lambda a=args: dynamic(*a)}
        result = measure(calls, rounds=rounds, block_seconds=block_seconds)
        ratio, p10, p90 = result.ratio("static", "dynamic")
        rows.append(
            {
                "batch": batch,
                "tokens": tokens,
                "dtype": str(dtype).removeprefix("torch."),
                "microseconds": {name: result.median(name) * 1e6 for name in calls},
                "dynamic_over_static": ratio,
                "p10": p10,
                "p90": p90,
            }
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--block-seconds", type=float, default=0.2)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args(argv)
    rows = []
    with torch.no_grad():
        for dtype in args.dtypes:
            for row in bench_dtype(DTYPES[dtype], args.rounds, args.block_seconds):
                rows.append(row)
                us = row["microseconds"]
                print(
                    f"bert {row['batch']}x{row['tokens']:<4d} {dtype}  static {us['static']:8.0f} us  "
                    f"dynamic {us['dynamic']:8.0f} us  "
                    f"ratio {row['dynamic_over_static']:.2f} ({row['p10']:.2f}-{row['p90']:.2f})",
                    flush=True,
                )
    if args.json:
        args.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1))
    return 1 if any(r["dynamic_over_static"] > GATE for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
