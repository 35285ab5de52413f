"""Library products and generated kernels share one team of threads: alternating them costs what each costs alone.

    python -m qualification.threads                  # 1,000 alternations per size
    python -m qualification.threads --json out.json

For each pair: n products alone, n generated kernels alone, and n of each in alternation, round by round in one
process. The operands of both fit the caches together, so that they do not evict each other's. Gate: the alternation
takes at most 5 % more than the sum, in the median round. The same alternation of eager operators is shown beside it:
what switching costs on the machine in any case (colder caches and branch predictors, the interpreter's too).
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import torch

from qualification.paired import quantile

GATE = 1.05
PAIRS = [  # (name, dtype, rows of a square product, elements of the pointwise chain)
    ("fp32, 256 and 64 Ki", torch.float32, 256, 1 << 16),
    ("bf16, 256 and 64 Ki", torch.bfloat16, 256, 1 << 16),
    ("fp32, 512 and 128 Ki", torch.float32, 512, 1 << 17),
]


def seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bench_pair(
    name: str, dtype: torch.dtype, rows: int, elements: int, *, total: int, rounds: int, eager: bool
) -> dict:
    torch._dynamo.reset()
    keep = lambda fn: fn  # noqa: E731
    compile_ = keep if eager else lambda fn: torch.compile(fn, backend="poot", dynamic=False, options={"strict": True})
    product = compile_(lambda a, b: a @ b)
    chain = compile_(lambda x, y: torch.relu(x * y + x))
    a, b = torch.randn(rows, rows, dtype=dtype), torch.randn(rows, rows, dtype=dtype)
    x, y = torch.randn(elements, dtype=dtype), torch.randn(elements, dtype=dtype)
    n = total // rounds

    def products() -> None:
        for _ in range(n):
            product(a, b)

    def chains() -> None:
        for _ in range(n):
            chain(x, y)

    def both() -> None:
        for _ in range(n):
            product(a, b)
            chain(x, y)

    both()
    ratios, times = [], {"products": [], "chains": [], "both": []}
    for _ in range(rounds):
        for key, work in (("products", products), ("both", both), ("chains", chains)):
            times[key].append(seconds(work) / n * 1e6)
        ratios.append(times["both"][-1] / (times["products"][-1] + times["chains"][-1]))
    ratios.sort()
    return {
        "pair": name,
        "microseconds": {k: statistics.median(v) for k, v in times.items()},
        "ratio": statistics.median(ratios),
        "p10": quantile(ratios, 0.1),
        "p90": quantile(ratios, 0.9),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", type=int, default=1000, help="alternations per pair")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args(argv)
    rows = []
    with torch.no_grad():
        for pair in PAIRS:
            row = bench_pair(*pair, total=args.total, rounds=args.rounds, eager=False)
            row["eager"] = bench_pair(*pair, total=args.total, rounds=args.rounds, eager=True)["ratio"]
            times = "  ".join(f"{k} {us:8.1f} us" for k, us in row["microseconds"].items())
            print(
                f"{row['pair']:22s} {times}  both/sum {row['ratio']:.3f} ({row['p10']:.3f}-{row['p90']:.3f})"
                f"  eager {row['eager']:.3f}",
                flush=True,
            )
            rows.append(row)
    if args.json:
        args.json.write_text(
            json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows}, indent=1)
        )
    failed = [r for r in rows if r["ratio"] > GATE]
    for r in failed:
        print(f"above the gate: {r['pair']}: {r['ratio']:.3f}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
