"""Every operator of PyTorch's op_db through torch.compile(backend="poot"), against eager.

    python -m qualification ops --shard 0/8 --results ops0.jsonl --resume   # an eighth, going on where it stopped
    python -m qualification ops --only add nn.functional.gelu --dtype f32 bf16
    python -m qualification ops --merge ops*.jsonl --json cpu.json          # the table over all shards
    python -m qualification ops --case nn.functional.gelu:bf16:static:0     # reruns one case
    python -m qualification ops --sample                                    # the fixed list of continuous integration

Each case runs in a worker process with a timeout. Classes: generated (kernels of poot's, or nothing to dispatch),
library (a call of library.def), fallback (eager ran some of it; counted and named), wrong, skipped. The exit status
is 1 where something is wrong, or with --sample, where a case is not what `op_sample.json` expects of it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

from qualification import op_table
from qualification.op_cases import DTYPES, MODES, Group, groups, parse_case
from qualification.op_pool import Worker

SAMPLE = pathlib.Path(__file__).with_name("op_sample.json")

# Entries that are not run, with the reason.
SKIPPED: dict[str, str] = {}


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m qualification ops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="OP", help="operators of op_db, by name")
    parser.add_argument("--dtype", nargs="+", choices=list(DTYPES))
    parser.add_argument("--mode", nargs="+", choices=MODES)
    parser.add_argument("--samples", type=int, help="at most so many samples of each operator, dtype and mode")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="the I-th of N parts of the operators")
    parser.add_argument("--results", type=pathlib.Path, help="append each result to this file, one JSON object a line")
    parser.add_argument("--resume", action="store_true", help="skip what --results holds already")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="worker processes")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one case")
    parser.add_argument("--json", type=pathlib.Path, help="write the table to this file")
    parser.add_argument("--merge", nargs="+", type=pathlib.Path, metavar="RESULTS", help="only make the table of these")
    parser.add_argument("--case", metavar="ID", help="rerun one case and print its result")
    parser.add_argument("--sample", action="store_true", help="run the committed list and hold it to its expectations")
    parser.add_argument("--bless", action="store_true", help="with --sample: expect what came out, unless it is wrong")
    return parser.parse_args(argv)


def _selected(args: argparse.Namespace) -> list[Group]:
    index, _, count = args.shard.partition("/")
    found = groups(only=args.only, dtypes=args.dtype, modes=args.mode, samples=args.samples)
    names = list(dict.fromkeys(g.op for g in found))
    mine = set(names[int(index) :: int(count)])
    return [g for g in found if g.op in mine and g.op not in SKIPPED]


def _run(work: list[tuple[Group, int]], jobs: int, timeout: float) -> Iterator[dict[str, Any] | Group]:
    """Results of the groups from their first open sample on; the group itself when it is finished."""
    todo: queue.SimpleQueue[tuple[Group, int]] = queue.SimpleQueue()
    done: queue.SimpleQueue[dict[str, Any] | Group | None] = queue.SimpleQueue()
    for item in work:
        todo.put(item)

    def serve() -> None:
        worker = Worker(timeout)
        try:
            while True:
                group, start = todo.get_nowait()
                for row in worker.run(group, start):
                    done.put(row)
                done.put(group)
        except queue.Empty:
            pass
        finally:
            worker.close()
            done.put(None)

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(jobs, len(work)))]
    for t in threads:
        t.start()
    left = len(threads)
    while left:
        item = done.get()
        if item is None:
            left -= 1
        else:
            yield item


def _unfinished(selected: list[Group], results: pathlib.Path | None) -> list[tuple[Group, int]]:
    """Groups with their first sample that `results` lacks; finished ones are left out."""
    if results is None or not results.exists():
        return [(g, 0) for g in selected]
    finished, known = set(), set()
    for line in results.read_text().splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        known.add(row.get("id"))
        if "finished" in row:
            finished.add(tuple(row["finished"]))
    work = []
    for g in selected:
        if (g.op, g.dtype, g.mode, g.limit) not in finished:
            start = 0
            while g.case(start) in known:
                start += 1
            work.append((g, start))
    return work


def _sweep(args: argparse.Namespace) -> int:
    selected = _selected(args)
    work = _unfinished(selected, args.results if args.resume else None)
    rows: list[dict[str, Any]] = op_table.read([args.results]) if args.resume and args.results.exists() else []
    sink = args.results.open("a" if args.resume else "w") if args.results else None
    finished = 0
    for item in _run(work, args.jobs, args.timeout):
        if isinstance(item, Group):
            finished += 1
            line: dict[str, Any] = {"finished": [item.op, item.dtype, item.mode, item.limit]}
        else:
            rows.append(item)
            line = item
            _progress(f"[{finished}/{len(work)}] {len(rows)} cases", item)
        if sink:
            sink.write(json.dumps(line) + "\n")
            sink.flush()
    print(file=sys.stderr)
    return _report(rows, args.json)


def _progress(text: str, row: dict[str, Any]) -> None:
    if row["cls"] == "wrong":
        print(f"\r{text}  wrong: {row['id']}: {row['reason'][:120]}", file=sys.stderr)
    elif sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr)


def _report(rows: list[dict[str, Any]], path: pathlib.Path | None) -> int:
    import torch

    summary = op_table.table(rows)
    op_table.show(summary, rows)
    if path:
        path.write_text(json.dumps({"torch": torch.__version__, "skipped": SKIPPED, **summary}, indent=1) + "\n")
    return 1 if any(r["cls"] == "wrong" for r in rows) else 0


def _one(name: str, timeout: float) -> dict[str, Any]:
    group, index = parse_case(name)
    worker = Worker(timeout)
    try:
        bounded = Group(group.op, group.dtype, group.mode, index + 1)
        return next(worker.run(bounded, index), {"id": name, "cls": "skipped", "reason": "op_db has no such sample"})
    finally:
        worker.close()


def _sampled(args: argparse.Namespace) -> int:
    """The fixed list: each case must be of the class that it is expected to be, no worse and no better."""
    expected: dict[str, str] = json.loads(SAMPLE.read_text())
    work = []
    for name in expected:
        group, index = parse_case(name)
        work.append((Group(group.op, group.dtype, group.mode, index + 1), index))
    found = {r["id"]: r for r in _run(work, args.jobs, args.timeout) if isinstance(r, dict)}
    surprises = 0
    for name, cls in expected.items():
        row = found.get(name, {"cls": "skipped", "reason": "op_db has no such sample"})
        if row["cls"] != cls:
            surprises += 1
            print(f"{name}: {row['cls']}, expected {cls}. {row.get('reason', '')[:300]}")
    print(f"{len(expected)} cases, {surprises} not as expected")
    if args.bless:
        kept = {n: found[n]["cls"] if n in found else "skipped" for n in expected}
        SAMPLE.write_text(json.dumps({n: c for n, c in kept.items()}, indent=0) + "\n")
    return 1 if surprises and not args.bless else 0


def main(argv: list[str] | None = None) -> int:
    args = _arguments(argv)
    if args.merge:
        return _report(op_table.read(args.merge), args.json)
    if args.sample:
        return _sampled(args)
    if args.case:
        row = _one(args.case, args.timeout)
        print(json.dumps(row, indent=1))
        return 1 if row["cls"] == "wrong" else 0
    return _sweep(args)


if __name__ == "__main__":
    raise SystemExit(main())
