"""Memory-bound kernels, paired in one process: poot against eager and PyTorch's default compiler.

    python -m qualification.memory_bound                                    # full size, fp32 and bf16
    python -m qualification.memory_bound --sizes all                        # a tenth, odd lengths, transposed as well
    python -m qualification.memory_bound --rows softmax --sizes full odd-17 --peers inductor --json out.json

A line gives each peer's time a call, poot's ratio to the faster peer (above 1: poot is faster) as median and p10-p90
over the rounds, and the bandwidth as a share of a copy of as many bytes, timed among the rounds. Results are judged
against float64 before any timing: no worse than 1.5 times eager's error. `hot` calls repeat on one set of inputs, and
the copy on one pair of buffers; `rotating` ones walk through sets that together exceed `--rotate-mb`, the copy too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import pathlib
import sys
from collections.abc import Callable

import torch

from poot_torch.accuracy import error_against
from qualification.memory_bound_rows import ROWS, SIZES, Inputs, Row
from qualification.paired import measure

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PEERS = ("eager", "inductor")
# Least geometric mean and least ratio at full size, by dtype; at other sizes no row may be slower than its peer.
MEAN, LEAST, LEAST_ELSEWHERE = {"fp32": 2.0, "bf16": 1.8}, {"fp32": 1.3, "bf16": 1.2}, 1.0


def step_of(row: Row, fn: Callable[..., object]) -> Callable[[Inputs], list[torch.Tensor]]:
    """Runs `fn` on a set of inputs; with `row.backward` the gradient of the first input is a result too."""
    if not row.backward:

        def forward(inputs: Inputs) -> list[torch.Tensor]:
            out = fn(*inputs)
            return [out] if isinstance(out, torch.Tensor) else list(out)  # type: ignore[call-overload]

        return forward

    def both(inputs: Inputs) -> list[torch.Tensor]:
        x = inputs[0].detach().requires_grad_()
        loss = fn(x, *inputs[1:])
        (grad,) = torch.autograd.grad(loss, x)  # type: ignore[arg-type]
        return [loss.detach(), grad]  # type: ignore[attr-defined]

    return both


def compiled(row: Row, backend: str, output_pool: bool) -> Callable[[Inputs], list[torch.Tensor]]:
    if backend == "eager":
        return step_of(row, row.fn)
    torch._dynamo.reset()
    options = {"strict": True, "output_pool": output_pool} if backend == "poot" else None
    return step_of(row, torch.compile(row.fn, backend=backend, options=options, dynamic=False))


def bytes_of(tensors: Inputs | list[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def copy_buffers(moved: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Target and source of a copy that reads and writes `moved` bytes in all."""
    count = max(1, moved // 2 // 4)
    return torch.zeros(count), torch.ones(count)


def bench_row(row: Row, size: str, dtype: torch.dtype, args: argparse.Namespace) -> dict:
    inputs = row.make(size, dtype, 0)
    reference = step_of(row, row.fn)(row.reference_of(inputs))
    steps, notes = {}, []
    for name in dict.fromkeys((*args.peers, "eager", "poot")):
        try:
            steps[name] = compiled(row, name, args.output_pool)
            steps[name](inputs)
        except Exception as e:
            if name != "inductor":
                raise
            del steps[name]
            notes.append(f"inductor does not run here: {type(e).__name__}: {str(e).splitlines()[0]}")
    errors = {name: [error_against(r, v) for r, v in zip(reference, step(inputs))] for name, step in steps.items()}
    timed = {name: step for name, step in steps.items() if name == "poot" or name in args.peers}
    outputs = steps["poot"](inputs)
    moved = (2 if row.backward else 1) * bytes_of(inputs) + bytes_of(outputs)
    result = {
        "row": row.name,
        "size": size,
        "accurate": all(p.within(e, dtype) for p, e in zip(errors["poot"], errors["eager"])),
        "error": {name: max(e.max for e in es) for name, es in errors.items()},
        "bytes": moved,
        "notes": notes,
    }
    for how in args.inputs:
        sets = 1 if how == "hot" else min(64, max(2, -(-args.rotate_mb * 2**20 // moved)))
        pool = [inputs, *(row.make(size, dtype, seed) for seed in range(1, sets))]
        cycles = {name: itertools.cycle(pool) for name in timed}
        calls: dict[str, Callable[[], object]] = {
            name: (lambda step=step, cycle=cycles[name]: step(next(cycle))) for name, step in timed.items()
        }
        if size == "full":
            pairs = itertools.cycle([copy_buffers(moved) for _ in range(sets)])
            calls["copy"] = lambda pairs=pairs: torch.Tensor.copy_(*next(pairs))
        paired = measure(calls, rounds=args.rounds, block_seconds=args.block_seconds)
        ratio, p10, p90 = paired.ratio("poot", *(n for n in timed if n != "poot"))
        result[how] = {
            "microseconds": {name: paired.median(name) * 1e6 for name in calls},
            "ratio": ratio,
            "p10": p10,
            "p90": p90,
            "gigabytes_per_second": moved / paired.median("poot") / 1e9,
        }
        if "copy" in calls:
            result[how]["share_of_copy"] = paired.ratio("poot", "copy")[0]
    return result


def show(r: dict) -> None:
    for how in ("hot", "rotating"):
        if how not in r:
            continue
        h = r[how]
        times = "  ".join(f"{name} {us:8.0f}" for name, us in h["microseconds"].items())
        share = f"  {h['share_of_copy']:.2f} of copy" if "share_of_copy" in h else ""
        print(
            f"{r['row']:23s} {r['size']:10s} {r['dtype']} {how:8s} {times} us  "
            f"{h['ratio']:5.2f}x ({h['p10']:.2f}-{h['p90']:.2f})  {h['gigabytes_per_second']:5.1f} GB/s{share}"
            f"{'' if r['accurate'] else '  INACCURATE'}",
            flush=True,
        )
    for note in r["notes"]:
        print(f"{'':23s} {note}")


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(math.log(x) for x in ratios) / len(ratios))


def summarize(rows: list[dict]) -> list[str]:
    """Prints the means; returns what is below its target."""
    below = [f"{r['row']} {r['size']} {r['dtype']}: inaccurate" for r in rows if not r["accurate"]]
    for dtype in DTYPES:
        for how in ("hot", "rotating"):
            for full in (True, False):
                some = [r for r in rows if r["dtype"] == dtype and how in r and (r["size"] == "full") == full]
                if not some:
                    continue
                mean, least = geometric_mean([r[how]["ratio"] for r in some]), min(r[how]["ratio"] for r in some)
                where = "full size" if full else "elsewhere"
                print(f"{dtype} {how}, {where}: geometric mean {mean:.2f}, lowest {least:.2f}, {len(some)} rows")
                if full and mean < MEAN[dtype]:
                    below.append(f"{dtype} {how}: mean {mean:.2f} < {MEAN[dtype]}")
                limit = LEAST[dtype] if full else LEAST_ELSEWHERE
                below += [
                    f"{r['row']} {r['size']} {dtype} {how}: {r[how]['ratio']:.2f} < {limit}"
                    for r in some
                    if r[how]["ratio"] < limit
                ]
    shares = {row.name: row.share for row in ROWS if row.share is not None}
    for r in rows:
        for how in ("hot", "rotating"):
            share = r.get(how, {}).get("share_of_copy")
            least_share = shares.get(r["row"])
            if share is not None and least_share is not None and share < least_share:
                below.append(f"{r['row']} {r['dtype']} {how}: {share:.2f} of copy bandwidth < {least_share}")
    return below


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=names, default=names)
    parser.add_argument("--sizes", nargs="+", choices=[*SIZES, "all"], default=["full"])
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--inputs", nargs="+", choices=["hot", "rotating"], default=["hot", "rotating"])
    parser.add_argument("--rotate-mb", type=int, default=640, help="rotating sets hold at least this much")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--block-seconds", type=float, default=0.1)
    parser.add_argument("--output-pool", action="store_true", help="poot keeps the memory of dead results")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args(argv)
    rows = []
    for row in (row for row in ROWS if row.name in args.rows):
        for size in (s for s in row.sizes() if s in args.sizes or "all" in args.sizes):
            for dtype in args.dtypes:
                with torch.set_grad_enabled(row.backward):
                    result = bench_row(row, size, DTYPES[dtype], args)
                result["dtype"] = dtype
                show(result)
                rows.append(result)
    below = summarize(rows)
    if args.json:
        args.json.write_text(
            json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows}, indent=1)
        )
    for line in below:
        print(f"below the target: {line}", file=sys.stderr)
    return 1 if below else 0


if __name__ == "__main__":
    raise SystemExit(main())
