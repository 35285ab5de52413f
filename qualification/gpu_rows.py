"""Memory-bound rows in bf16 on a GPU: time and bandwidth beside the default compiler, error against float64."""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable
from typing import Any

import torch

from qualification import memory_bound_rows as rows
from qualification.gpu_timing import BF16, Calls, compiled, flat, paired, worst

# What the geometric mean is of: elements and rows. The sums down columns and of everything, and the transpose, are
# beside it.
GATED = ["pointwise", "residual-rms-norm", "layer-norm-gelu", "softmax-32768", "softmax-262144"]
GATED += ["cross-entropy", "rope"]


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=BF16)


def table() -> dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]], int]]:
    """name -> (function, inputs, bytes that a call must move)."""
    n = 8192
    d = 4096

    def rope() -> tuple[torch.Tensor, ...]:
        q, k = noise(4, 32, d, 128), noise(4, 32, d, 128)
        return q, k, noise(d, 128), noise(d, 128)

    return {
        "pointwise": (rows.pointwise, lambda: (noise(n, n), noise(n, n)), 3 * n * n * 2),
        "residual-rms-norm": (
            rows.residual_rms_norm,
            lambda: (noise(16384, d), noise(16384, d), noise(d)),
            4 * 16384 * d * 2,
        ),
        "layer-norm-gelu": (rows.layer_norm_gelu, lambda: (noise(16384, d), noise(d), noise(d)), 2 * 16384 * d * 2),
        "softmax-32768": (rows.scaled_softmax, lambda: (noise(d, 32768),), 2 * d * 32768 * 2),
        "softmax-262144": (rows.scaled_softmax, lambda: (noise(512, 262144),), 2 * 512 * 262144 * 2),
        "cross-entropy": (
            rows.cross_entropy,
            lambda: (noise(d, 128256), torch.randint(0, 128256, (d,), device="cuda")),
            d * 128256 * 2,
        ),
        "rope": (rows.rotate_half, rope, 4 * 4 * 32 * d * 128 * 2),
        "column-sum": (lambda x: x.sum(0), lambda: (noise(16384, n),), 16384 * n * 2),
        "column-sum-narrow": (lambda x: x.float().sum(0), lambda: (noise(1 << 20, 64),), (1 << 20) * 64 * 2),
        "sum-all": (lambda x: x.float().sum(), lambda: (noise(n, n),), n * n * 2),
        "transpose-add": (lambda x, y: x.t() + y, lambda: (noise(n, n), noise(n, n)), 3 * n * n * 2),
    }


def wide_reference(fn: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor] | None:
    """fn in float64, or None where it does not fit."""
    try:
        return flat(fn(*(t.double() if t.is_floating_point() else t for t in inputs)))
    except torch.cuda.OutOfMemoryError:
        return None


def run_row(name: str) -> dict[str, Any]:
    fn, make, bytes_moved = table()[name]
    torch._dynamo.reset()
    sets = [make() for _ in range(3)]
    calls: dict[str, Calls] = {}
    out: dict[str, Any] = {"bytes": bytes_moved, "error": {}}
    reference = wide_reference(fn, sets[0])
    for backend in ("inductor", "poot"):
        f = compiled(fn, backend)
        try:
            start = time.perf_counter()
            got = f(*sets[0])
            torch.cuda.synchronize()
            out.setdefault("first_call_s", {})[backend] = time.perf_counter() - start
            if reference is not None:
                out["error"][backend] = worst(reference, got)
        except Exception as e:
            out.setdefault("failed", {})[backend] = f"{type(e).__name__}: {e}"[:600]
            continue
        calls[backend] = [lambda s=s, f=f: f(*s) for s in sets]
    if reference is not None:
        out["error"]["eager"] = worst(reference, fn(*sets[0]))
    del reference
    with torch.no_grad():
        out.update(paired(calls))
    out["GB/s"] = {k: bytes_moved / s / 1e9 for k, s in out["seconds"].items()}
    return out


def section_rows(_: argparse.Namespace) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in table():
        try:
            with torch.no_grad():
                out[name] = run_row(name)
            speeds = "  ".join(f"{k} {v:6.0f}" for k, v in out[name]["GB/s"].items())
            ratio = out[name].get("inductor/poot", [float("nan")])[0]
            print(f"  {name:20s} GB/s {speeds}  x{ratio:.2f}  error {out[name]['error']}", flush=True)
            if "failed" in out[name]:
                print("   ", out[name]["failed"], flush=True)
        except Exception as e:
            out[name] = {"failed": f"{type(e).__name__}: {e}"[:600]}
            print(f"  {name:20s} failed: {out[name]['failed'][:300]}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    ratios = {name: r["inductor/poot"][0] for name, r in out.items() if "inductor/poot" in r}
    if ratios.keys() >= set(GATED):
        out["geometric mean of"] = GATED
        out["geometric mean"] = math.exp(sum(math.log(ratios[name]) for name in GATED) / len(GATED))
    return out
