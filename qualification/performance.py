"""Compile cost and steady state together: the subcommands that time something, one after another.

    python -m qualification performance --out results/      # one JSON file each, for `python -m qualification page`
    python -m qualification performance --only bench first_call

Each prints its own figures and gates them; this exits 1 where any did.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib

PARTS = (
    "bench",
    "memory_bound",
    "dynamic_speed",
    "first_call",
    "scaling",
    "call_cost",
    "products",
    "threads",
    "memory",
    "gpt2",
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the JSON of those parts that write one")
    args = parser.parse_args(argv)
    missed = []
    for name in args.only:
        print(f"== {name}", flush=True)
        module = importlib.import_module(f"qualification.{name}")
        given = []
        if args.out and name != "scaling":  # which writes none
            args.out.mkdir(parents=True, exist_ok=True)
            given = ["--json", str(args.out / f"{name}.json")]
        if module.main(given):
            missed.append(name)
    for name in missed:
        print(f"below its gates: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
