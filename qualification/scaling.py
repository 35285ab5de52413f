"""Compile cost against graph size, in poot's own phases (import, passes, plan, generate, compile, load).

    python -m qualification.scaling

1. A Fibonacci-shaped chain (each step reads the two before it) against a straight chain of as many operators: sharing
   must not multiply work, in compiling or in running.
2. Graphs of 200 and of 2,000 operators: time per operator.

Each measurement is the fastest of several on an empty kernel cache held in this process alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

os.environ["POOT_CACHE_DIR"] = tempfile.mkdtemp(prefix="poot-scaling-")

import torch

import poot_torch

FIBONACCI_GATE = 1.5
SIZE_GATE = 2.0


def fibonacci(x: torch.Tensor, steps: int, salt: float) -> torch.Tensor:
    a, b = x, x * salt
    for i in range(steps):
        a, b = b, (a + b) * 0.5 if i % 2 else (a - b) * 0.5
    return b


def straight(x: torch.Tensor, steps: int, salt: float) -> torch.Tensor:
    y = x * salt
    for i in range(steps):
        y = (y + x) * 0.5 if i % 2 else (x - y) * 0.5
    return y


def mixed(x: torch.Tensor, steps: int, salt: float) -> torch.Tensor:
    """Layers of a few operators, with a reduction in each, as models have."""
    for i in range(steps // 4):
        x = torch.tanh(x * salt) + x.mean(-1, keepdim=True) * (i + 1)
    return x


def compile_ms(fn, steps: int, repeats: int) -> tuple[float, object]:
    """Milliseconds of poot's own phases, and the compiled function."""
    best, compiled = float("inf"), None
    for _ in range(repeats):
        torch._dynamo.reset()
        salt = 0.25 + len(seen) / 1024  # a new constant, so that no kernel is found in memory
        seen.append(salt)
        compiled = torch.compile(
            lambda x, salt=salt: fn(x, steps, salt), backend="poot", options={"strict": True}, fullgraph=True
        )
        compiled(torch.rand(64, 64))
        best = min(best, sum(poot_torch.last_report().to_json()["totals"]["phases_ms"].values()))
    return best, compiled


seen: list[float] = []


def run_us(compiled, repeats: int = 200) -> float:
    x = torch.rand(512, 512)
    compiled(x)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        compiled(x)
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 10] * 1e6


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args(argv)
    failed = []
    with torch.no_grad():
        compile_ms(straight, 8, 1)  # the first compile of a process pays for imports
        straight_ms, straight_fn = compile_ms(straight, 60, args.repeats)
        fibonacci_ms, fibonacci_fn = compile_ms(fibonacci, 60, args.repeats)
        ratio = fibonacci_ms / straight_ms
        run_ratio = run_us(fibonacci_fn) / run_us(straight_fn)
        print(f"fibonacci 60: compile {fibonacci_ms:.1f} ms, straight {straight_ms:.1f} ms, ratio {ratio:.2f}")
        print(f"fibonacci 60: run, ratio to straight {run_ratio:.2f}")
        if max(ratio, run_ratio) > FIBONACCI_GATE:
            failed.append("fibonacci")
        small, _ = compile_ms(mixed, 200, args.repeats)
        large, _ = compile_ms(mixed, 2000, args.repeats)
        per_op = (large / 2000) / (small / 200)
        print(f"200 operators {small:.1f} ms, 2,000 operators {large:.1f} ms, time per operator x{per_op:.2f}")
        if per_op > SIZE_GATE:
            failed.append("graph size")
    for what in failed:
        print(f"past the gate: {what}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
