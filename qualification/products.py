"""Matrix products beside PyTorch's own, paired in one process: decoding's few rows with the weight in cache and
rotating through memory, products of many rows alone and with what follows them. The latter are also planned as library
calls, which is what the cost model decided against where a row's plan is "generated".

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
import os
import pathlib
import sys
import types
from collections.abc import Callable

import torch

import poot_torch
from qualification.paired import measure

F = torch.nn.functional
ROTATED_BYTES = 640 << 20
LEAST_OF_LIBRARY = 0.95
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


def planned_by_library(fn: Callable[..., object], args: tuple) -> Callable[..., object]:
    """fn with its products left to the library, compiled: a function of its own, as Dynamo keeps code by function."""
    other = types.FunctionType(fn.__code__.replace(co_name="planned_by_library"), fn.__globals__)
    asked = {"POOT_SKIP": "fuse_contraction", "POOT_NO_CACHE": "1"}
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update(asked)
    try:
        plan = torch.compile(other, backend="poot", dynamic=False)
        plan(*args)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    return plan


def many_rows(name: str, fn: Callable[..., object], args: tuple, flops: int, gate: float, inductor: bool) -> dict:
    def bound(f: Callable[..., object]) -> Call:
        return lambda: f(*args)

    calls = {"eager": bound(fn), "poot": bound(compiled(fn, "poot"))}
    if inductor:
        calls["inductor"] = bound(compiled(fn, "inductor"))
    calls["poot"]()
    products = poot_torch.last_report().to_json()["graphs"][0]["contractions"]
    calls["library"] = bound(planned_by_library(fn, args))
    name = f"{str(args[0].dtype)[6:]} {name}"
    plans = ["generated" if p["class"] == "generated" else "library" for p in products]
    return {"name": name, "gate": gate, "plans": plans, "work": flops / 1e9, "unit": "GFLOP/s", "calls": calls}


def rows(inductor: bool) -> list[Callable[[], dict]]:
    def gelu(x, w, b):
        return F.gelu(F.linear(x, w, b))

    def residual(x, w, b, r):
        return F.linear(x, w, b) + r

    def gated(x, gate, up, down):
        return x + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    def linear(x, w):
        return F.linear(x, w)

    def several(name, fn, shapes, flops, gate, dtype):
        return lambda: many_rows(name, fn, tuple(random(*s, dtype=dtype) for s in shapes), flops, gate, inductor)

    few = [(lambda d=d, r=r: few_rows(d, r)) for d in (torch.bfloat16, torch.float32) for r in (False, True)]
    few += [
        (lambda d=d, m=m: few_rows(d, True, m, in_rows=True)) for d in (torch.bfloat16, torch.float32) for m in (1, 8)
    ]
    many = []
    for d in (torch.bfloat16, torch.float32):
        many += [
            several(f"{m}x{k} by {n}x{k}", linear, ((m, k), (n, k)), 2 * m * n * k, 0.0, d)
            for m, k, n in ((256, 1024, 2816), (512, 768, 3072), (197, 768, 768), (32, 1024, 1024))
        ]
        many += [
            several("bias, GELU 512x768x3072", gelu, ((512, 768), (3072, 768), (3072,)), 2 * 512 * 768 * 3072, 1.0, d),
            several("bias, GELU 128x256x256", gelu, ((128, 256), (256, 256), (256,)), 2 * 128 * 256 * 256, 1.0, d),
            several(
                "bias, residual 512x3072x768",
                residual,
                ((512, 3072), (768, 3072), (768,), (512, 768)),
                2 * 512 * 768 * 3072,
                1.0,
                d,
            ),
            several(
                "gated MLP, 256 rows of 1024, inner 2816",
                gated,
                ((256, 1024), (2816, 1024), (2816, 1024), (1024, 2816)),
                3 * 2 * 256 * 1024 * 2816,
                1.0,
                d,
            ),
        ]
    return few + many


def run(row: dict, *, rounds: int, block_seconds: float) -> dict:
    calls = row.pop("calls")
    result = measure(calls, rounds=rounds, block_seconds=block_seconds)
    row["microseconds"] = {name: result.median(name) * 1e6 for name in calls}
    row["ratio"], row["p10"], row["p90"] = result.ratio("poot", "eager")
    speeds = "  ".join(
        f"{name} {us:8.1f} us {row['work'] / us * 1e6:6.1f} {row['unit']}" for name, us in row["microseconds"].items()
    )
    line = f"{row['name']:48s} {speeds}  eager/poot {row['ratio']:.2f} ({row['p10']:.2f}-{row['p90']:.2f})"
    if "library" in calls:
        row["library_ratio"] = result.ratio("poot", "library")[0]
        line += f"  library/poot {row['library_ratio']:.2f} {'+'.join(row['plans'])}"
    print(line, flush=True)
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
    failed = [f"{r['name']}: {r['ratio']:.2f}, below the gate of {r['gate']}" for r in done if r["ratio"] < r["gate"]]
    failed += [
        f"{r['name']}: generated, at {r['library_ratio']:.2f} times the library's plan"
        for r in done
        if "generated" in r.get("plans", ()) and r["library_ratio"] < LEAST_OF_LIBRARY
    ]
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
