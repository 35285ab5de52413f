"""python -m qualification SUBCOMMAND …: the suite's one entrance; each subcommand is also a module of its own."""

from __future__ import annotations

import importlib
import sys

SUBCOMMANDS = {
    "ops": "every operator of PyTorch's database against eager",
    "modules": "every module of PyTorch's database, forward and backward, against eager",
    "optimizers": "every optimizer of PyTorch's database, its step compiled, against eager",
    "models": "architectures of transformers at small size, inference, against float64",
    "training": "training steps of these, against float64",
    "gpt2": "50 training steps of GPT-2: losses, step time, first call, memory",
    "mutation": "functions that write, alias and view, against eager",
    "dynamic": "functions over several sizes through one compile, against eager",
    "breaks": "graph breaks and fallbacks, and whether the report counts them",
    "cache": "one kernel cache and many processes, some killed, files damaged",
    "containment": "kernel compilers that crash, hang or answer nonsense",
    "performance": "everything that times something, one after another",
    "bench": "steady state of the demo models against eager and the default compiler",
    "memory_bound": "norms, softmax, cross-entropy, RoPE and their share of copy bandwidth",
    "products": "matrix products of few and many rows beside PyTorch's own",
    "dynamic_speed": "BERT with symbolic sizes beside the static program",
    "exactness": "every bf16 and f16 number through every function, against eager and float64",
    "page": "one HTML page with plots, from the --json files of these",
    "coverage": "one HTML page of what runs and how, from the --json files of the suites of cases",
    "call_cost": "what a call costs beside its kernels",
    "threads": "library products and generated kernels in alternation",
    "memory": "peak memory of a call against the default compiler",
    "gpu": "what needs a GPU",
    "gpu_first": "first call and peak memory on a GPU, each in a process of its own",
    "first_call": "first call in fresh processes, cold and warm",
    "scaling": "compile cost against graph size",
    "accuracy": "five seeds of every demo model against float64",
}


def main(argv: list[str]) -> int:
    if not argv or argv[0] not in SUBCOMMANDS:
        print("usage: python -m qualification SUBCOMMAND [--help] …\n", file=sys.stderr)
        for name, text in SUBCOMMANDS.items():
            print(f"  {name:12s} {text}", file=sys.stderr)
        return 0 if argv[:1] in (["-h"], ["--help"]) else 2
    return int(importlib.import_module(f"qualification.{argv[0]}").main(argv[1:]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
