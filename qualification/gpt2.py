"""GPT-2 in training, strict: losses of 50 steps, step time, first call, memory, against eager and the default compiler.

    python -m qualification gpt2                             # all four
    python -m qualification gpt2 --only losses --steps 20

losses: the largest relative difference from eager's at one thread over the steps, with dropout off and on under one
seed: at most 3 times what eager differs from itself at two threads, or 1e-6; beside it, how far either is from a run at
double precision. step: time of forward, backward and AdamW,
paired. first: the first step in fresh processes, cold. memory: peak of a step as `qualification.memory` counts it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

from qualification.memory import peak_of_call
from qualification.paired import measure

FIGURES = ("losses", "step", "first", "memory")
STEP_GATE, FIRST_GATE, MEMORY_GATE, LOSS_FLOOR = 1.05, 0.35, 1.0, 1e-6
SEED = 5


def build(dropout: float) -> tuple[Any, torch.Tensor]:
    """The demo's size: 4 layers of 256, two rows of 128 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 8192, "n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 256}
    rates: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    config = GPT2Config(bos_token_id=0, eos_token_id=0, **sizes, **rates)
    return GPT2LMHeadModel(config).train(), torch.randint(0, 8192, (2, 128))


def stepper(backend: str, dropout: float, **options: Any) -> Callable[[], torch.Tensor]:
    """One training step of a fresh model; returns the loss. `options` are poot's beside strict. The backend "float64"
    is eager at double precision."""
    model, ids = build(dropout)
    if backend == "float64":
        model, backend = model.double(), "eager"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    fn: Any = model
    if backend != "eager":
        torch._dynamo.reset()
        fn = torch.compile(model, backend=backend, options={"strict": True, **options} if backend == "poot" else None)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = fn(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def losses(backend: str, dropout: float, steps: int, threads: int) -> list[float]:
    torch.set_num_threads(threads)
    step = stepper(backend, dropout)
    torch.manual_seed(SEED)
    return [float(step()) for _ in range(steps)]


def compare_losses(steps: int) -> dict[str, Any]:
    row: dict[str, Any] = {"figure": "losses", "steps": steps, "right": True}
    for name, dropout in (("plain", 0.0), ("dropout", 0.1)):
        eager = losses("eager", dropout, steps, 1)

        def off(other: list[float], eager: list[float] = eager) -> float:
            return max(abs(a - b) / abs(b) for a, b in zip(other, eager, strict=True))

        poot = losses("poot", dropout, steps, 1)
        own, ours = off(losses("eager", dropout, steps, 2)), off(poot)
        row[name] = {"eager_at_two_threads": own, "poot": ours, "last_loss": eager[-1]}
        row["right"] = row["right"] and ours <= max(3 * own, LOSS_FLOOR)
        if not dropout:  # which draws other masks at double precision
            wide = losses("float64", dropout, steps, 1)
            row[name] |= {"eager_from_float64": off(wide), "poot_from_float64": off(wide, poot)}
    return row


def compare_steps() -> dict[str, Any]:
    calls: dict[str, Callable[[], object]] = {name: stepper(name, 0.0) for name in ("eager", "inductor", "poot")}
    result = measure(calls, rounds=7, block_seconds=0.4)
    ratio, p10, p90 = result.ratio("poot", "eager", "inductor")
    times = {name: result.median(name) * 1e3 for name in calls}
    return {
        "figure": "step",
        "milliseconds": times,
        "ratio": ratio,
        "p10": p10,
        "p90": p90,
        "right": ratio >= STEP_GATE,
    }


def _first(backend: str) -> None:
    import torch._dynamo  # noqa: F401  its import is not the backend's cost

    step = stepper(backend, 0.0)
    start = time.perf_counter()
    step()
    print("RESULT", time.perf_counter() - start)


def compare_first(n: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {"poot": [], "inductor": []}
    for _ in range(n):
        for name in times:
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, "POOT_CACHE_DIR": f"{folder}/p", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/i"}
                out = subprocess.run(
                    [sys.executable, "-m", "qualification.gpt2", "--first-of", name],
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                times[name].append(float(out.stdout.split("RESULT")[1]))
    ratio = statistics.median(p / i for p, i in zip(times["poot"], times["inductor"], strict=True))
    return {"figure": "first", "seconds": times, "ratio": ratio, "right": ratio <= FIRST_GATE}


def _peak(name: str) -> int:
    from poot_torch import backend

    made: list[Any] = []
    make = backend._compile

    def record(*args: Any, **kwargs: Any) -> Any:
        made.append(make(*args, **kwargs))
        return made[-1]

    with mock.patch.object(backend, "_compile", record):
        step = stepper(name, 0.0, output_pool=False)  # the pool's memory is not torch's allocator's
        for _ in range(3):
            step()
    return peak_of_call(step) + sum(graph.kept_bytes for graph in made)


def compare_memory() -> dict[str, Any]:
    peaks = {name: _peak(name) for name in ("eager", "inductor", "poot")}
    ratio = peaks["poot"] / peaks["inductor"]
    return {"figure": "memory", "bytes": peaks, "ratio": ratio, "right": ratio <= MEMORY_GATE}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--n", type=int, default=3, help="processes of each kind")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--first-of", choices=("poot", "inductor"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.first_of:
        _first(args.first_of)
        return 0
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "losses": lambda: compare_losses(args.steps),
        "step": compare_steps,
        "first": lambda: compare_first(args.n),
        "memory": compare_memory,
    }
    rows = []
    for name in args.only:
        rows.append(made[name]())
        print(json.dumps(rows[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"suite": "gpt2", "torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    return 0 if all(r["right"] for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
