"""What calls cost and keep on a GPU: host time of a call, launches of a long chain, memory over many sizes, results
under replay."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import poot_torch
from qualification.gpu_timing import BF16, compiled, device_seconds

SIZES, CALLS = 50, 1000


def host_seconds(call: Callable[[], object], n: int = 300) -> float:
    torch.cuda.synchronize()
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(n):
            call()
        best = min(best, (time.perf_counter() - start) / n)
        torch.cuda.synchronize()
    return best


def two_operators() -> dict[str, float]:
    """Host microseconds of a call of two operators, by backend."""
    x = torch.randn(64, 64, device="cuda")
    out = {}
    for backend in ("inductor", "poot"):
        torch._dynamo.reset()
        f = compiled(lambda a: torch.relu(a * 2), backend)
        for _ in range(5):
            f(x)
        out[backend] = host_seconds(lambda f=f: f(x)) * 1e6
    return out


def long_chain() -> dict[str, float]:
    torch._dynamo.reset()

    def chain(a: torch.Tensor) -> torch.Tensor:
        for _ in range(150):  # two kernels each: the reduction ends one
            a = a - a.sum(0, keepdim=True) * 1e-3
        return a

    x = torch.randn(64, 64, device="cuda")
    f = compiled(chain, "poot")
    for _ in range(5):
        f(x)
    kernels = poot_torch.last_report().to_json()["totals"]["dispatches_after"]
    return {
        "kernels": kernels,
        "host us a kernel": host_seconds(lambda: f(x), 20) * 1e6 / max(kernels, 1),
        "device us a kernel": device_seconds([lambda: f(x)]) * 1e6 / max(kernels, 1),
    }


def layer(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Kernels around products and an attention."""
    h = F.gelu(x @ w) + x
    q = h.view(1, -1, 4, 64).transpose(1, 2)
    return torch.relu(F.scaled_dot_product_attention(q, torch.relu(q), q + 1).transpose(1, 2).reshape(h.shape) @ v) * 2


def operands(rows: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(n, 256, device="cuda", dtype=BF16) / 16 for n in (rows, 256, 256))


def many_sizes() -> dict[str, Any]:
    """Bytes in use and reserved after each quarter of the calls; flat from the second quarter on."""
    torch._dynamo.reset()
    f = torch.compile(layer, backend="poot", options={"strict": True})
    x, w, v = operands(16 * SIZES)
    out: dict[str, Any] = {"sizes": SIZES, "calls": CALLS, "allocated": [], "reserved": []}
    for i in range(CALLS):
        rows = x[: 16 * (i % SIZES + 1)]
        torch._dynamo.mark_dynamic(rows, 0)
        f(rows, w, v)
        if (i + 1) % (CALLS // 4) == 0:
            torch.cuda.synchronize()
            out["allocated"].append(torch.cuda.memory_allocated())
            out["reserved"].append(torch.cuda.memory_reserved())
    out["flat"] = all(len(set(out[key][1:])) == 1 for key in ("allocated", "reserved"))
    return out


def results_kept() -> dict[str, Any]:
    """Results of f while f is called again, on its own results too: their bits stay."""
    torch._dynamo.reset()
    f = compiled(layer, "poot")
    x, w, v = operands(256)
    for _ in range(5):
        f(x, w, v)
    kept = [f(x * i, w, v) for i in range(10)]
    copies = [y.clone() for y in kept]
    for y in kept:
        f(f(y, w, v), w, v)
    changed = sum(not torch.equal(y, c) for y, c in zip(kept, copies, strict=True))
    alone = [f(x * i, w, v) for i in range(10)]
    differ = sum(not torch.equal(y, c) for y, c in zip(alone, copies, strict=True))
    return {"results": len(kept), "changed by later calls": changed, "different when called again": differ}


def section_calls(_: argparse.Namespace) -> dict[str, Any]:
    with torch.no_grad():
        out = {
            "two operators, host us a call": two_operators(),
            "chain": long_chain(),
            "many sizes": many_sizes(),
            "results kept": results_kept(),
        }
    print(f"  {out}", flush=True)
    return out
