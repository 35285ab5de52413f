"""What a call costs beside its kernels, on graphs so small that nothing else shows.

    python -m qualification.call_cost                 # paired with PyTorch's default compiler in one process
    python -m qualification.call_cost --json out.json

For each graph: the boxed callable that poot hands to AOTAutograd (a list in, fresh outputs out), the whole compiled
call (Dynamo's guards and AOTAutograd's wrappers included), and the default compiler's. Gates: the boxed callable of
the two-op graph on 64 elements takes at most 5 us, and no whole call is slower than the default compiler's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable
from unittest import mock

import torch

from poot_torch import backend
from qualification.paired import measure

BOXED_GATE_US = 5.0
WHOLE_GATE = 1.0  # poot's whole call against the default compiler's
CALLS = 100  # in one timed unit


@dataclasses.dataclass
class Graph:
    name: str
    fn: Callable[..., object]
    args: tuple[torch.Tensor, ...]
    backward: bool = False  # forward and backward, gradients of the first argument
    dynamic: bool | None = False


def graphs() -> list[Graph]:
    def tensor(*shape: int, grad: bool = False) -> torch.Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).requires_grad_(grad)

    def mlp(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        for w in weights:
            x = torch.tanh(x @ w)
        return x

    def many(*xs: torch.Tensor) -> list[torch.Tensor]:
        return [torch.relu(a + b) for a, b in zip(xs, xs[1:], strict=False)]

    def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + y)

    return [
        Graph("two ops, 64 elements", two, (tensor(64), tensor(64))),
        Graph("two ops, 64 elements, dynamic", two, (tensor(64), tensor(64)), dynamic=True),
        Graph("two ops, 8 x 8 transposed", two, (tensor(8, 8).t(), tensor(8, 8))),
        Graph("32 inputs, 31 outputs", many, tuple(tensor(16) for _ in range(32))),
        Graph("MLP, three 16 x 16 layers", mlp, (tensor(4, 16), tensor(16, 16), tensor(16, 16), tensor(16, 16))),
        Graph("two ops, forward and backward", two, (tensor(64, grad=True), tensor(64)), backward=True),
    ]


def compiled(graph: Graph, name: str) -> tuple[Callable[[], object], list[Callable[..., object]]]:
    """(the whole call, the boxed callables poot made for it)."""
    boxed: list[Callable[..., object]] = []
    make = backend._compile

    def record(*args, **kwargs):
        boxed.append(make(*args, **kwargs))
        return boxed[-1]

    fn = torch.compile(graph.fn, backend=name, dynamic=graph.dynamic)

    def forward() -> object:
        return fn(*graph.args)

    def step() -> object:
        return torch.autograd.grad(fn(*graph.args).sum(), graph.args[0])

    call = step if graph.backward else forward
    with mock.patch.object(backend, "_compile", record):
        call()
    call()
    return call, boxed


def repeated(call: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


def bench_graph(graph: Graph, *, rounds: int, block_seconds: float) -> dict:
    torch._dynamo.reset()
    calls: dict[str, Callable[[], object]] = {}
    notes = []
    calls["poot"], boxed = compiled(graph, "poot")
    try:
        calls["inductor"], _ = compiled(graph, "inductor")
    except Exception as e:
        notes.append(f"inductor does not run here: {type(e).__name__}: {str(e).splitlines()[0]}")
    if len(boxed) == 1:
        args = [graph.args[0].shape[0], *graph.args] if graph.dynamic else list(graph.args)
        calls["boxed"] = lambda: boxed[0](args[:])
    result = measure({k: repeated(v) for k, v in calls.items()}, rounds=rounds, block_seconds=block_seconds)
    row: dict = {
        "graph": graph.name,
        "microseconds": {name: result.median(name) * 1e6 / CALLS for name in calls},
        "notes": notes,
    }
    if "inductor" in calls:
        row["ratio"], row["p10"], row["p90"] = result.ratio("poot", "inductor")
    return row


def show(row: dict) -> None:
    times = "  ".join(f"{name} {us:7.2f} us" for name, us in row["microseconds"].items())
    ratio = f"  inductor/poot {row['ratio']:.2f} ({row['p10']:.2f}-{row['p90']:.2f})" if "ratio" in row else ""
    print(f"{row['graph']:32s} {times}{ratio}", flush=True)
    for note in row["notes"]:
        print(f"{'':32s} {note}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--block-seconds", type=float, default=0.1)
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    args = parser.parse_args(argv)
    rows = []
    for graph in graphs():
        with torch.set_grad_enabled(graph.backward):
            rows.append(bench_graph(graph, rounds=args.rounds, block_seconds=args.block_seconds))
        show(rows[-1])
    if args.json:
        args.json.write_text(
            json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows}, indent=1)
        )
    failed = [f"{r['graph']}: inductor/poot {r['ratio']:.2f}" for r in rows if r.get("ratio", 1.0) < WHOLE_GATE]
    if (us := rows[0]["microseconds"]["boxed"]) > BOXED_GATE_US:
        failed.append(f"{rows[0]['graph']}: the boxed callable takes {us:.2f} us")
    for f in failed:
        print(f"below the gate: {f}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
