"""Error of the demo models against float64 beside eager's, over several seeds.

    python -m qualification.accuracy [--seeds 5] [--models bert] [--dtypes bf16]

A model passes at a seed if poot's error, RMS and maximum, is at most 1.5 times eager's or 2 ulp of the output dtype at
the tensor's scale.
"""

from __future__ import annotations

import argparse
import sys

import torch

from poot_torch import demo_models
from poot_torch.accuracy import error_against

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [c.name for c in demo_models.CASES]
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    args = parser.parse_args(argv)
    failed = []
    with torch.no_grad():
        for name in args.models:
            for dtype in args.dtypes:
                worst = {"rms": 0.0, "max": 0.0}
                for seed in range(args.seeds):
                    case = demo_models.case(name)
                    reference = case.build(DTYPES[dtype], seed, True)()
                    eager = error_against(reference, case.build(DTYPES[dtype], seed, False)())
                    instance = case.build(DTYPES[dtype], seed, False)
                    torch._dynamo.reset()
                    compiled = torch.compile(instance.fn, backend="poot", options={"strict": True})
                    instance.reset()
                    poot = error_against(reference, compiled(*instance.args))
                    worst["rms"] = max(worst["rms"], poot.rms / eager.rms if eager.rms else 0.0)
                    worst["max"] = max(worst["max"], poot.max / eager.max if eager.max else 0.0)
                    if not poot.within(eager, DTYPES[dtype]):
                        failed.append(f"{name} {dtype} seed {seed}: poot {poot}, eager {eager}")
                print(
                    f"{name:14s} {dtype}  worst of {args.seeds} seeds, poot / eager: "
                    f"RMS {worst['rms']:.3f}, maximum {worst['max']:.3f}",
                    flush=True,
                )
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
