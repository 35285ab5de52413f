"""Matrix products beside PyTorch's own, paired in one process: decoding's few rows with the weight in cache and
rotating through memory, bf16 products of many rows alone and with what follows them.

    python -m qualification.products                 # the default compiler too: --inductor
    python -m qualification.products --json out.json

Gates: bf16 1x2048 by 8192x2048 at 2.5 times the speed of torch's linear with the weight in cache and 1.5 times through
640 MB of weights, fp32 at 1.0 times; products with what follows them at 1.0 times eager. The former need AVX512-BF16:
elsewhere they are shown, not gated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import sys
from collections.abc import Callable

import torch

from qualification.paired import measure

F = torch.nn.functional
ROTATED_BYTES = 640 << 20
Call = Callable[[], object]


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))) * 0.1).to(dtype)


def compiled(fn: Callable[..., object], backend: str) -> Callable[..., object]:
    torch._dynamo.reset()
    return torch.compile(fn, backend=backend, dynamic=False)


def few_rows(
    dtype: torch.dtype, rotating: bool, rows: int = 1, inner: int = 2048, outer: int = 8192, in_rows: bool = False
) -> dict:
    weight = random(inner, outer, dtype=dtype) if in_rows else random(outer, inner, dtype=dtype)
    product = torch.matmul if in_rows else F.linear
    count = max(1, ROTATED_BYTES // weight.nbytes) if rotating else 1
    weights = [weight] + [weight.clone() for _ in range(count - 1)]
    x, turn = random(rows, inner, dtype=dtype), itertools.cycle(weights)
    fn = compiled(lambda x, w: product(x, w), "poot")
    sizes = "x".join(map(str, weight.shape))
    name = f"{str(dtype)[6:]} {rows}x{inner} by {sizes}, {'rotating' if rotating else 'cached'}"
    gate = (1.5 if rotating else 2.5) if dtype is torch.bfloat16 and not in_rows else 1.0
    if dtype is torch.bfloat16 and not torch.cpu._is_avx512_bf16_supported():
        gate = 0.0
    calls: dict[str, Call] = {"poot": lambda: fn(x, next(turn)), "eager": lambda: product(x, next(turn))}
    return {"name": name, "gate": gate, "work": weight.nbytes / 1e9, "unit": "GB/s", "calls": calls}


def many_rows(name: str, fn: Callable[..., object], args: tuple, flops: int, gate: float, inductor: bool) -> dict:
    def bound(f: Callable[..., object]) -> Call:
        return lambda: f(*args)

    calls = {"eager": bound(fn), "poot": bound(compiled(fn, "poot"))}
    if inductor:
        calls["inductor"] = bound(compiled(fn, "inductor"))
    return {"name": f"bf16 {name}", "gate": gate, "work": flops / 1e9, "unit": "GFLOP/s", "calls": calls}


def rows(inductor: bool) -> list[Callable[[], dict]]:
    def gelu(x, w, b):
        return F.gelu(F.linear(x, w, b))

    def residual(x, w, b, r):
        return F.linear(x, w, b) + r

    def gated(x, gate, up, down):
        return x + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    def several(name, fn, shapes, flops, gate):
        return lambda: many_rows(name, fn, tuple(random(*s) for s in shapes), flops, gate, inductor)

    few = [(lambda d=d, r=r: few_rows(d, r)) for d in (torch.bfloat16, torch.float32) for r in (False, True)]
    few += [
        (lambda d=d, m=m: few_rows(d, True, m, in_rows=True)) for d in (torch.bfloat16, torch.float32) for m in (1, 8)
    ]
    alone = [
        several(f"{m}x{k} by {n}x{k}", F.linear, ((m, k), (n, k)), 2 * m * n * k, 0.0)
        for m, k, n in ((256, 1024, 2816), (512, 768, 3072), (197, 768, 768))
    ]
    return (
        few
        + alone
        + [
            several("bias, GELU 512x768x3072", gelu, ((512, 768), (3072, 768), (3072,)), 2 * 512 * 768 * 3072, 1.0),
            several(
                "bias, residual 512x3072x768",
                residual,
                ((512, 3072), (768, 3072), (768,), (512, 768)),
                2 * 512 * 768 * 3072,
                1.0,
            ),
            several(
                "gated MLP, 256 rows of 1024, inner 2816",
                gated,
                ((256, 1024), (2816, 1024), (2816, 1024), (1024, 2816)),
                3 * 2 * 256 * 1024 * 2816,
                1.0,
            ),
        ]
    )


def run(row: dict, *, rounds: int, block_seconds: float) -> dict:
    calls = row.pop("calls")
    result = measure(calls, rounds=rounds, block_seconds=block_seconds)
    row["microseconds"] = {name: result.median(name) * 1e6 for name in calls}
    row["ratio"], row["p10"], row["p90"] = result.ratio("poot", "eager")
    speeds = "  ".join(
        f"{name} {us:8.1f} us {row['work'] / us * 1e6:6.1f} {row['unit']}" for name, us in row["microseconds"].items()
    )
    print(f"{row['name']:48s} {speeds}  eager/poot {row['ratio']:.2f} ({row['p10']:.2f}-{row['p90']:.2f})", flush=True)
    return row


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--block-seconds", type=float, default=0.15)
    parser.add_argument("--inductor", action="store_true", help="measure the default compiler too")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args(argv)
    with torch.no_grad():
        done = [run(make(), rounds=args.rounds, block_seconds=args.block_seconds) for make in rows(args.inductor)]
    if args.json:
        figures = {"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": done}
        args.json.write_text(json.dumps(figures, indent=1))
    failed = [r for r in done if r["ratio"] < r["gate"]]
    for r in failed:
        print(f"below the gate of {r['gate']}: {r['name']}: {r['ratio']:.2f}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
