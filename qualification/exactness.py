"""Every bf16 and f16 number through every function, poot beside eager.

    python -m qualification.exactness [--dtypes bf16 f16 f32] [--only exp gelu] [--json out.json]

Two verdicts a row. Against eager, which the row passes by: at most 1 ulp on any input, at most 0.1 % of results
different, and NaN, infinities and signs of zero as eager has them; graphs of arithmetic equal eager in every bit.
Against float64: the largest error of poot and of eager, for information. In f32 (a million patterns) a function passes
by its error against float64 instead, at most 1.5 ulp or eager's where that is larger, with eager's specials; what is
composed of functions (gelu, softplus …) by its specials alone.

16-bit ulps are steps between neighbouring numbers of the dtype, an infinity counted as the number after the largest;
those against float64 are distances in units of the last place of the exact result. Inputs of two operands are a grid.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

import torch

from qualification.exactness_cases import DTYPES, TABLES, Function, inputs, integer

MAX_ULP, MAX_DIFFERENT, MAX_ULP_F32 = 1, 0.001, 1.5


def ordinal(x: torch.Tensor) -> torch.Tensor:
    """int64 that counts the dtype's numbers in order; both zeros are 0."""
    bits = integer(x).long()
    return torch.where(bits < 0, -(bits & (2 ** (8 * x.element_size() - 1) - 1)), bits)


def steps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Numbers of the dtype between the two, int64; 0 where either is NaN."""
    return (ordinal(got) - ordinal(want)).abs().masked_fill(got.isnan() | want.isnan(), 0)


def special_differs(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """A NaN, an infinity (beyond a rounding step from the largest number) or a zero's sign that `want` has not."""
    endless = (got.isinf() | want.isinf()) & (steps(got, want) > 1)
    zeros = (got == 0) & (want == 0) & (got.signbit() != want.signbit())
    return (got.isnan() ^ want.isnan()) | endless | zeros


def differs(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    return ~(got.isnan() & want.isnan()) & (integer(got) != integer(want))


def error_ulp(got: torch.Tensor, truth: torch.Tensor) -> float:
    """The largest distance from the float64 `truth` in units of its last place, where both are finite."""
    info = torch.finfo(got.dtype)
    tiny = torch.tensor(info.smallest_normal, dtype=torch.float64)
    unit = torch.exp2(torch.floor(torch.log2(torch.maximum(truth.abs(), tiny)))) * info.eps
    finite = got.isfinite() & (truth.abs() <= info.max)
    return float(((got.double() - truth).abs() / unit).where(finite, 0.0).max())


def _against_eager(got: torch.Tensor, eager: torch.Tensor) -> dict[str, Any]:
    return {
        "max_ulp": int(steps(got, eager).max()),
        "different": float(differs(got, eager).double().mean()),
        "specials": int(special_differs(got, eager).sum()),
    }


def _against_float64(got: torch.Tensor, eager: torch.Tensor, truth: torch.Tensor) -> dict[str, Any]:
    return {
        "max_ulp": error_ulp(got, truth),
        "eager_max_ulp": error_ulp(eager, truth),
        "specials": int(special_differs(got, truth.to(got.dtype)).sum()),
        "eager_specials": int(special_differs(eager, truth.to(got.dtype)).sum()),
    }


@torch.no_grad()
def check(name: str, kind: str, dtype: torch.dtype) -> dict[str, Any]:
    fn: Function = TABLES[kind][name]
    x = inputs(kind, dtype)
    torch._dynamo.reset()
    got = torch.compile(fn, backend="poot", options={"strict": True})(*x)
    eager = fn(*x)
    near = _against_eager(got, eager)
    row = {"function": name, "kind": kind, "dtype": str(dtype).removeprefix("torch."), "against_eager": near}
    if kind == "arithmetic":
        return row | {"pass": near["different"] == 0}
    true = _against_float64(got, eager, fn(*(v.double() for v in x)))
    if dtype == torch.float32:
        close = kind == "composed" or true["max_ulp"] <= max(MAX_ULP_F32, true["eager_max_ulp"])
    else:
        close = near["max_ulp"] <= MAX_ULP and near["different"] <= MAX_DIFFERENT
    return row | {"against_float64": true, "pass": close and near["specials"] == 0}


def describe(row: dict[str, Any]) -> str:
    if "error" in row:
        return row["error"]
    near = row["against_eager"]
    text = f"eager: {near['max_ulp']:6d} ulp, {near['different']:8.4%} different, {near['specials']} specials"
    if true := row.get("against_float64"):
        text += f" | float64: {true['max_ulp']:.3g} ulp, eager {true['eager_max_ulp']:.3g}"
    return text


def _check_or_error(name: str, kind: str, dtype: str) -> dict[str, Any]:
    try:
        return check(name, kind, DTYPES[dtype])
    except torch._dynamo.exc.BackendCompilerFailed as e:
        return {"function": name, "kind": kind, "dtype": dtype, "pass": False, "error": str(e).split("\n")[1]}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=["bf16", "f16"])
    parser.add_argument("--only", nargs="+", choices=[name for table in TABLES.values() for name in table])
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args(argv)
    rows = []
    for kind, table in TABLES.items():
        for name in table if not args.only else [n for n in table if n in args.only]:
            for dtype in args.dtypes if kind != "arithmetic" else [d for d in args.dtypes if d != "f32"]:
                row = _check_or_error(name, kind, dtype)
                rows.append(row)
                print(f"{name:18s} {dtype:4s} {'ok  ' if row['pass'] else 'FAIL'} {describe(row)}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    failed = [r for r in rows if not r["pass"]]
    print(
        f"{len(rows) - len(failed)} of {len(rows)} pass" + "".join(f"\n  {r['function']} {r['dtype']}" for r in failed)
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
