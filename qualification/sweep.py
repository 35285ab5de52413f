"""The command line of every subcommand that runs cases: shards, resume, one case again, its reproducer, the table.

Each case runs in a worker process with a timeout. Classes: generated (kernels of poot's, or nothing to dispatch),
library (a call of library.def), broken (these, in several graphs), fallback (eager ran some of it; counted and named),
wrong, skipped. The exit status is 1 where something is wrong, or with --sample, where a case is not what the committed
list expects of it.

    python -m qualification SUITE --shard 0/8 --results a0.jsonl --resume   # an eighth, going on where it stopped
    python -m qualification SUITE --merge a*.jsonl --json cpu.json          # the table over all shards
    python -m qualification SUITE --against inductor                        # the same cases through another backend
    python -m qualification SUITE --case ID                                 # reruns one case
    python -m qualification SUITE --reproduce ID > case.py                  # a script that shows it without the suite
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from qualification import table
from qualification.cases import DTYPES, Group, Suite, narrowed
from qualification.pool import Item, Worker

_UNIT = 48  # cases, roughly, that a worker is given at once
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
    parser.add_argument(
        "--shard", default="0/1", metavar="I/N", help="the I-th of N parts of the subjects, or the list"
    )
    parser.add_argument("--results", type=pathlib.Path, help="append each result to this file, one JSON object a line")
    parser.add_argument("--resume", action="store_true", help="skip what --results holds already")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no group after so long")
    parser.add_argument("--batch", type=int, default=16, help="cases in one compiled function, where the suite can")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="worker processes")
    parser.add_argument("--timeout", type=float, default=suite.timeout, help="seconds for one case")
    parser.add_argument("--json", type=pathlib.Path, help="write the table to this file")
    parser.add_argument("--page", type=pathlib.Path, help="write the table to this file as Markdown")
    parser.add_argument("--note", default="", help="a line on that page, such as the commit that was swept")
    parser.add_argument("--merge", nargs="+", type=pathlib.Path, metavar="RESULTS", help="only make the table of these")
    parser.add_argument("--case", metavar="ID", help="rerun one case and print its result")
    parser.add_argument("--reproduce", metavar="ID", help="print a script that shows the case without the suite")
    parser.add_argument("--against", choices=BACKENDS, default="poot", help="the backend under test")
    parser.add_argument("--sample", action="store_true", help="run the committed list and hold it to its expectations")
    parser.add_argument("--bless", action="store_true", help="with --sample: expect what came out, unless it is wrong")
    return parser.parse_args(argv)


def _selected(suite: Suite, args: argparse.Namespace) -> list[Group]:
    """In an order drawn by a seed, so that a sweep that is cut short is a fair sample."""
    found = narrowed(suite.scope(), only=args.only, dtypes=args.dtype, modes=args.mode, samples=args.samples)
    mine = set(_part(list(dict.fromkeys(g.subject for g in found)), args.shard))
    selected = [g for g in found if g.subject in mine]
    random.Random(0).shuffle(selected)
    return selected


def _part(names: list[str], shard: str) -> list[str]:
    index, _, count = shard.partition("/")
    return names[int(index) :: int(count)]


def units(suite: Suite, work: list[Item]) -> list[list[Item]]:
    """What a worker is given at once: a group, or of a suite that runs cases together, groups of one mode with a few
    dozen cases, none twice of a subject and dtype."""
    if not suite.together:
        return [[item] for item in work]
    found: list[list[Item]] = []
    open_units: dict[str, list[Item]] = {}
    for group, start in work:
        unit = open_units.get(group.mode)
        twin = unit and any((g.subject, g.dtype) == (group.subject, group.dtype) for g, _ in unit)
        if unit is None or twin or sum(min(g.limit - i, 8) for g, i in unit) >= _UNIT:
            unit = open_units[group.mode] = []
            found.append(unit)
        unit.append((group, start))
    return found


def run(suite: Suite, work: list[Item], args: argparse.Namespace) -> Iterator[dict[str, Any] | Group]:
    """Results of the groups from their first open sample on; the group itself when it is finished."""
    todo: queue.SimpleQueue[list[Item]] = queue.SimpleQueue()
    done: queue.SimpleQueue[dict[str, Any] | Group | None] = queue.SimpleQueue()
    end = time.monotonic() + args.seconds
    for unit in units(suite, work):
        todo.put(unit)

    def serve() -> None:
        worker = Worker(suite.name, args.against, args.timeout, args.batch)
        try:
            while time.monotonic() < end:
                for item in worker.run(todo.get_nowait()):
                    done.put(item)
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


def unfinished(selected: list[Group], results: pathlib.Path | None) -> list[Item]:
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


def _commit() -> str:
    """Of the checkout that the suite runs from; empty outside one."""
    command = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True)
    except OSError:  # no git
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _recorded(suite: Suite, work: list[Item], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Results as they come, those of an earlier run first, each written to the file."""
    path: pathlib.Path | None = args.results
    if args.resume and path and path.exists():
        yield from table.read([path])
    finished, commit = 0, _commit()
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(path.open("a" if args.resume else "w")) if path else None
        for item in run(suite, work, args):
            if isinstance(item, Group):
                finished += 1
                line: dict[str, Any] = {"finished": [item.subject, item.dtype, item.mode, item.limit]}
            else:
                line = {**item, "commit": commit}
                _progress(f"[{finished}/{len(work)}]", item)
                yield line
            if sink:
                sink.write(json.dumps(line) + "\n")
                sink.flush()
    print(f"{len(work) - finished} groups left", file=sys.stderr)


def _sweep(suite: Suite, args: argparse.Namespace) -> int:
    work = unfinished(_selected(suite, args), args.results if args.resume else None)
    return _report(suite, list(_recorded(suite, work, args)), args)


def _progress(text: str, row: dict[str, Any]) -> None:
    if row["cls"] == "wrong":
        print(f"\r{text}  wrong: {row['id']}: {row['reason'][:120]}", file=sys.stderr)
    elif sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr)


def _report(suite: Suite, rows: list[dict[str, Any]], args: argparse.Namespace) -> int:
    import torch

    summary = table.table(rows)
    summary["scope"] = _scope(suite)
    table.show(summary, rows)
    if args.json:
        head = {"suite": suite.name, "torch": torch.__version__, "backend": args.against}
        args.json.write_text(json.dumps({**head, **summary}, indent=1) + "\n")
    if args.page:
        args.page.write_text(table.page(suite.name, summary, args.note))
    return 1 if any(r["cls"] == "wrong" for r in rows) else 0


def _scope(suite: Suite) -> dict[str, int]:
    """How many subjects the whole scope has, in all and in each part."""
    found: dict[str, set[str]] = {"all": set()}
    for g in suite.scope():
        found["all"].add(g.subject)
        found.setdefault(f"{g.mode} {g.dtype}", set()).add(g.subject)
    return {name: len(subjects) for name, subjects in found.items()}


def _one(suite: Suite, name: str, args: argparse.Namespace) -> int:
    group, index = suite.parse(name)
    worker = Worker(suite.name, args.against, args.timeout)
    try:
        bounded = Group(group.subject, group.dtype, group.mode, index + 1)
        rows = [r for r in worker.run([(bounded, index)]) if isinstance(r, dict)]
        row = rows[0] if rows else _absent(name)
    finally:
        worker.close()
    print(json.dumps(row, indent=1))
    return 1 if row["cls"] == "wrong" else 0


def _absent(name: str) -> dict[str, Any]:
    return {"id": name, "cls": "skipped", "reason": "there is no such sample"}


def _sampled(suite: Suite, args: argparse.Namespace) -> int:
    """The fixed list: each case must be of the class that it is expected to be, no worse and no better."""
    path = pathlib.Path(__file__).with_name("samples") / f"{suite.name}.json"
    whole: dict[str, str] = json.loads(path.read_text())
    names = _part(list(whole), args.shard)
    cases = [suite.parse(name) for name in names]
    groups = [Group(g.subject, g.dtype, g.mode, i + 1) for g, i in cases]
    left = {g for g, _ in unfinished(groups, args.results if args.resume else None)}
    work = [(g, i) for g, (_, i) in zip(groups, cases, strict=True) if g in left]
    found = {r["id"]: r for r in _recorded(suite, work, args) if r["id"] in whole}
    if args.seconds == float("inf"):
        found = {n: _absent(n) for n in names} | found
    expected = whole if args.against == "poot" else {n: c if c == "skipped" else "right" for n, c in whole.items()}
    surprises = [n for n in found if found[n]["cls"] != expected[n]]
    for name in surprises:
        print(f"{name}: {found[name]['cls']}, expected {expected[name]}. {found[name].get('reason', '')[:300]}")
    seconds = sum(r.get("first_call_s", 0.0) for r in found.values())
    print(f"{len(found)} of {len(names)} cases, {len(surprises)} not as expected, first calls {seconds:.1f} s")
    if args.bless:
        right = {n: r["cls"] for n, r in found.items() if r["cls"] != "wrong" or r.get("upstream")}
        path.write_text(json.dumps({n: right.get(n, c) for n, c in whole.items()}, indent=0) + "\n")
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
