"""bf16 and f16 over all 65,536 inputs: poot's rounding beside eager's.

    python -m qualification.exactness [--dtypes bf16] [--only exp gelu] [--json out.json]

Arithmetic graphs must equal eager bit for bit. A transcendental function may lie at most 1 ulp from the float64 value
rounded to the dtype (or as far as eager does, where a formula like gelu's cancels), and at most 0.1 % of its results
may differ from eager's and lie farther from the float64 value. Ulps are steps between neighbouring numbers of the
dtype. A NaN, an infinity or a zero's sign is wrong if neither eager nor float64 has it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Callable

import torch

F = torch.nn.functional
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
MAX_ULP, MAX_DIFFERENT = 1, 0.001

TRANSCENDENTAL: dict[str, Callable] = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "pow_1.7": lambda x: x**1.7,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "softplus": F.softplus,
    "mish": F.mish,
    "elu": F.elu,
    "selu": F.selu,
    "logsigmoid": F.logsigmoid,
    "log_softplus_chain": lambda x: torch.tanh(F.softplus(x)),
}


def _rope(x: torch.Tensor) -> torch.Tensor:
    """Rotate-half on the last axis: x * cos + rotate_half(x) * sin, the tables made from the same bits."""
    rows = x.view(-1, 64)
    cos, sin = rows.flip(0), rows.roll(1, 0)
    a, b = rows.chunk(2, -1)
    return rows * cos + torch.cat((-b, a), -1) * sin


ARITHMETIC: dict[str, Callable] = {
    "add_mul_sub": lambda x: (x + 1.5) * x - x.flip(0),
    "div": lambda x: x.flip(0) / x + x / 3,
    "reciprocal": torch.reciprocal,
    "abs_neg_sign": lambda x: -x.abs() + torch.sign(x),
    "square_cube": lambda x: x**2 + x**3,
    "relu_clamp": lambda x: F.relu(x).clamp(-2, 6) - F.relu6(x),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "min_max_where": lambda x: torch.where(x > x.flip(0), torch.maximum(x, x.flip(0)), torch.minimum(x * 2, x.flip(0))),
    "addcmul": lambda x: torch.addcmul(x, x.flip(0), x.roll(7), value=0.5),
    "lerp": lambda x: torch.lerp(x, x.flip(0), 0.3),
    "rounding": lambda x: x.floor() + x.ceil() - x.round() + x.trunc(),
    "fmod_remainder": lambda x: torch.fmod(x, 3.0) + torch.remainder(x, 1.5),
    "casts": lambda x: (x.float() * 1.1).to(x.dtype) + (x.clamp(-100, 100)).to(torch.int32).to(x.dtype),
    "rope_rotate_half": _rope,
}


def every_value(dtype: torch.dtype) -> torch.Tensor:
    """All 65,536 bit patterns, [65536]."""
    return torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(dtype)


def ordinal(x: torch.Tensor) -> torch.Tensor:
    """int64 that counts the dtype's numbers in order; both zeros are 0."""
    bits = x.view(torch.int16).long()
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def steps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Numbers of the dtype between the two, int64; 0 for two NaN, 2^20 for one."""
    one_nan = got.isnan() ^ want.isnan()
    return torch.where(got.isnan() & want.isnan(), 0, (ordinal(got) - ordinal(want)).abs()).masked_fill(
        one_nan, 1 << 20
    )


def special_differs(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """A NaN, an infinity (beyond a rounding step from the largest number) or a zero's sign that `want` has not."""
    both_finite = got.isfinite() & want.isfinite()
    zeros = both_finite & (got == 0) & (want == 0)
    return (~both_finite & (steps(got, want) > 1)) | (zeros & (got.signbit() != want.signbit()))


def differs(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    return ~(got.isnan() & want.isnan()) & (got.view(torch.int16) != want.view(torch.int16))


def max_ulp(got: torch.Tensor, want: torch.Tensor) -> int:
    """Largest distance where both are finite."""
    return int(steps(got, want).masked_fill(~(got.isfinite() & want.isfinite()), 0).max())


@torch.no_grad()
def check(name: str, fn: Callable, dtype: torch.dtype, exact: bool) -> dict:
    x = every_value(dtype)
    torch._dynamo.reset()
    got = torch.compile(fn, backend="poot", options={"strict": True})(x)
    eager = fn(x)
    different = differs(got, eager)
    row = {
        "function": name,
        "dtype": str(dtype).removeprefix("torch."),
        "different_from_eager": float(different.float().mean()),
    }
    if exact:
        return row | {"pass": not different.any()}
    truth = fn(x.double()).to(dtype)
    worse = different & (steps(got, truth) > steps(eager, truth))
    row |= {
        "different_and_worse": float(worse.float().mean()),
        "ulp": max_ulp(got, truth),
        "eager_ulp": max_ulp(eager, truth),
        "wrong_specials": int((special_differs(got, eager) & special_differs(got, truth)).sum()),
    }
    close = row["ulp"] <= max(MAX_ULP, row["eager_ulp"])
    return row | {"pass": close and row["wrong_specials"] == 0 and row["different_and_worse"] <= MAX_DIFFERENT}


def describe(row: dict) -> str:
    if "error" in row:
        return row["error"]
    text = f"{row['different_from_eager']:.4%} differ from eager"
    if "ulp" in row:
        text += (
            f", {row['different_and_worse']:.4%} for the worse; {row['ulp']} ulp of float64 (eager {row['eager_ulp']})"
            f", {row['wrong_specials']} wrong specials"
        )
    return text


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--only", nargs="+", choices=[*TRANSCENDENTAL, *ARITHMETIC])
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args(argv)
    rows = []
    for exact, table in ((False, TRANSCENDENTAL), (True, ARITHMETIC)):
        for name, fn in table.items():
            if args.only and name not in args.only:
                continue
            for dtype in args.dtypes:
                try:
                    row = check(name, fn, DTYPES[dtype], exact)
                except torch._dynamo.exc.BackendCompilerFailed as e:
                    row = {"function": name, "dtype": dtype, "pass": False, "error": str(e).split("\n")[1]}
                rows.append(row)
                print(f"{name:20s} {dtype:5s} {'ok  ' if row['pass'] else 'FAIL'} {describe(row)}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    failed = [r for r in rows if not r["pass"]]
    print(f"{len(rows) - len(failed)} of {len(rows)} pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
