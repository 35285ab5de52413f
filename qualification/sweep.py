"""The command line of every subcommand that runs cases: shards, resume, one case again, its reproducer, the table.

Each case runs in a worker process with a timeout. Classes: generated (kernels of poot's, or nothing to dispatch),
library (a call of library.def), fallback (eager ran some of it; counted and named), wrong, skipped. The exit status
is 1 where something is wrong, or with --sample, where a case is not what the committed list expects of it.

    python -m qualification SUITE --shard 0/8 --results a0.jsonl --resume   # an eighth, going on where it stopped
    python -m qualification SUITE --merge a*.jsonl --json cpu.json          # the table over all shards
    python -m qualification SUITE --against inductor                        # the same cases through another backend
    python -m qualification SUITE --case ID                                 # reruns one case
    python -m qualification SUITE --reproduce ID > case.py                  # a script that shows it without the suite
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from qualification import table
from qualification.cases import DTYPES, Group, Suite, narrowed
from qualification.pool import Worker

BACKENDS = ("poot", "inductor", "aot_eager", "eager")


def _arguments(suite: Suite, argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m qualification {suite.name}",
        description=f"{suite.text}\n{(__doc__ or '').replace('SUITE', suite.name)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", metavar="SUBJECT", help="subjects by name, with or without their variant")
    parser.add_argument("--dtype", nargs="+", choices=list(DTYPES))
    parser.add_argument("--mode", nargs="+")
    parser.add_argument("--samples", type=int, help="at most so many samples of each subject, dtype and mode")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="the I-th of N parts of the subjects")
    parser.add_argument("--results", type=pathlib.Path, help="append each result to this file, one JSON object a line")
    parser.add_argument("--resume", action="store_true", help="skip what --results holds already")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no group after so long")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="worker processes")
    parser.add_argument("--timeout", type=float, default=suite.timeout, help="seconds for one case")
    parser.add_argument("--json", type=pathlib.Path, help="write the table to this file")
    parser.add_argument("--merge", nargs="+", type=pathlib.Path, metavar="RESULTS", help="only make the table of these")
    parser.add_argument("--case", metavar="ID", help="rerun one case and print its result")
    parser.add_argument("--reproduce", metavar="ID", help="print a script that shows the case without the suite")
    parser.add_argument("--against", choices=BACKENDS, default="poot", help="the backend under test")
    parser.add_argument("--sample", action="store_true", help="run the committed list and hold it to its expectations")
    parser.add_argument("--bless", action="store_true", help="with --sample: expect what came out, unless it is wrong")
    return parser.parse_args(argv)


def _selected(suite: Suite, args: argparse.Namespace) -> list[Group]:
    index, _, count = args.shard.partition("/")
    found = narrowed(suite.scope(), only=args.only, dtypes=args.dtype, modes=args.mode, samples=args.samples)
    names = list(dict.fromkeys(g.subject for g in found))
    mine = set(names[int(index) :: int(count)])
    return [g for g in found if g.subject in mine]


def run(suite: Suite, work: list[tuple[Group, int]], args: argparse.Namespace) -> Iterator[dict[str, Any] | Group]:
    """Results of the groups from their first open sample on; the group itself when it is finished."""
    todo: queue.SimpleQueue[tuple[Group, int]] = queue.SimpleQueue()
    done: queue.SimpleQueue[dict[str, Any] | Group | None] = queue.SimpleQueue()
    end = time.monotonic() + args.seconds
    for item in work:
        todo.put(item)

    def serve() -> None:
        worker = Worker(suite.name, args.against, args.timeout)
        try:
            while time.monotonic() < end:
                group, start = todo.get_nowait()
                for row in worker.run(group, start):
                    done.put(row)
                done.put(group)
        except queue.Empty:
            pass
        finally:
            worker.close()
            done.put(None)

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(args.jobs, len(work)))]
    for t in threads:
        t.start()
    left = len(threads)
    while left:
        got = done.get()
        if got is None:
            left -= 1
        else:
            yield got


def unfinished(selected: list[Group], results: pathlib.Path | None) -> list[tuple[Group, int]]:
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
            finished.add(Group(*row["finished"]))
    work = []
    for g in selected:
        if g not in finished:
            start = 0
            while g.case(start) in known:
                start += 1
            work.append((g, start))
    return work


def _sweep(suite: Suite, args: argparse.Namespace) -> int:
    selected = _selected(suite, args)
    work = unfinished(selected, args.results if args.resume else None)
    rows = table.read([args.results]) if args.resume and args.results and args.results.exists() else []
    sink = args.results.open("a" if args.resume else "w") if args.results else None
    finished = 0
    for item in run(suite, work, args):
        if isinstance(item, Group):
            finished += 1
            line: dict[str, Any] = {"finished": [item.subject, item.dtype, item.mode, item.limit]}
        else:
            rows.append(item)
            line = item
            _progress(f"[{finished}/{len(work)}] {len(rows)} cases", item)
        if sink:
            sink.write(json.dumps(line) + "\n")
            sink.flush()
    print(f"{len(work) - finished} groups left", file=sys.stderr)
    return _report(suite, rows, args)


def _progress(text: str, row: dict[str, Any]) -> None:
    if row["cls"] == "wrong":
        print(f"\r{text}  wrong: {row['id']}: {row['reason'][:120]}", file=sys.stderr)
    elif sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr)


def _report(suite: Suite, rows: list[dict[str, Any]], args: argparse.Namespace) -> int:
    import torch

    summary = table.table(rows)
    table.show(summary, rows)
    if args.json:
        head = {"suite": suite.name, "torch": torch.__version__, "backend": args.against}
        args.json.write_text(json.dumps({**head, **summary}, indent=1) + "\n")
    return 1 if any(r["cls"] == "wrong" for r in rows) else 0


def _one(suite: Suite, name: str, args: argparse.Namespace) -> int:
    group, index = suite.parse(name)
    worker = Worker(suite.name, args.against, args.timeout)
    try:
        bounded = Group(group.subject, group.dtype, group.mode, index + 1)
        row = next(worker.run(bounded, index), {"id": name, "cls": "skipped", "reason": "there is no such sample"})
    finally:
        worker.close()
    print(json.dumps(row, indent=1))
    return 1 if row["cls"] == "wrong" else 0


def _sampled(suite: Suite, args: argparse.Namespace) -> int:
    """The fixed list: each case must be of the class that it is expected to be, no worse and no better."""
    path = pathlib.Path(__file__).with_name("samples") / f"{suite.name}.json"
    expected: dict[str, str] = json.loads(path.read_text())
    work = []
    for name in expected:
        group, index = suite.parse(name)
        work.append((Group(group.subject, group.dtype, group.mode, index + 1), index))
    found = {r["id"]: r for r in run(suite, work, args) if isinstance(r, dict)}
    surprises = 0
    for name, cls in expected.items():
        row = found.get(name, {"cls": "skipped", "reason": "there is no such sample"})
        if row["cls"] != cls:
            surprises += 1
            print(f"{name}: {row['cls']}, expected {cls}. {row.get('reason', '')[:300]}")
    print(f"{len(expected)} cases, {surprises} not as expected")
    if args.bless:
        kept = {n: found[n]["cls"] if n in found else "skipped" for n in expected}
        path.write_text(json.dumps({n: c for n, c in kept.items() if c != "wrong"}, indent=0) + "\n")
    return 1 if surprises and not args.bless else 0


def main(suite: Suite, argv: list[str] | None = None) -> int:
    args = _arguments(suite, argv)
    if args.merge:
        return _report(suite, table.read(args.merge), args)
    if args.reproduce:
        print(suite.reproducer(*suite.parse(args.reproduce)), end="")
        return 0
    if args.case:
        return _one(suite, args.case, args)
    return _sampled(suite, args) if args.sample else _sweep(suite, args)
