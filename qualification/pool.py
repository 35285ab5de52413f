"""Worker processes, each watched: a case that crashes its process or outlives its time is a result too."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from qualification.cases import Group

Item = tuple[Group, int]  # and its first sample to run
_CASES = 1500  # that one process serves, since Dynamo's memory grows


class Died(Exception):
    """The worker is gone or out of time."""


class Worker:
    """One process; started on first use and again after a death."""

    def __init__(self, suite: str, against: str, timeout: float, most: int = 1) -> None:
        """`most`: cases that may run at once."""
        self.suite, self.against, self.timeout = suite, against, timeout
        self._most = most
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._served = 0
        self._stderr = tempfile.TemporaryFile()

    def _start(self) -> None:
        self._pending, self._served = b"", 0
        self._stderr.seek(0)
        self._stderr.truncate()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "qualification.case_worker", self.suite, self.against],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=pathlib.Path(__file__).resolve().parent.parent,
        )
        self._line(300)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _last_words(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - 400))
        return " ".join(self._stderr.read().decode(errors="replace").split())

    def _line(self, timeout: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        end = time.monotonic() + timeout
        fd = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                self.close()
                raise Died(f"no answer within {timeout:.0f} s")
            data = os.read(fd, 1 << 16)
            if not data:
                code = self._process.wait()
                self._process = None
                raise Died(f"the process ended with {code}: {self._last_words()[-200:]}")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)

    def run(self, unit: list[Item]) -> Iterator[dict[str, Any] | Group]:
        """Results of a unit's cases as they come, and each group when it is finished. A death costs the cases that
        were running: each is tried again alone."""
        todo = list(unit)
        while todo:
            running: list[str] = []
            answered: set[str] = set()
            rest = dict(todo)
            try:
                for line in self._serve(todo, self._most):
                    if "begin" in line:
                        running = line["begin"]
                        for name in running:
                            group, index = _place(name, rest)
                            rest[group] = index + 1
                    elif "result" in line:
                        answered.add(line["result"]["id"])
                        yield line["result"]
                    elif "end" in line:
                        group = todo[line["end"]][0]
                        rest.pop(group)
                        if line["why"]:
                            yield _row(group.case(line["at"]), "skipped", f"no samples: {line['why']}")
                        yield group
                return
            except Died as e:
                if not running:
                    yield from (_row(g.case(i), "wrong", f"crash or hang before the first case: {e}") for g, i in todo)
                    return
                for name in running:
                    if name not in answered:
                        yield self._alone(name, rest) if len(running) > 1 else _row(name, "wrong", _dead(e))
                todo = list(rest.items())

    def _alone(self, name: str, groups: Iterable[Group]) -> dict[str, Any]:
        group, index = _place(name, groups)
        only = dataclasses.replace(group, limit=index + 1)
        try:
            found = [line["result"] for line in self._serve([(only, index)], 1) if "result" in line]
            return found[0] if found else _row(name, "skipped", "there is no such sample")
        except Died as e:
            return _row(name, "wrong", _dead(e))

    def _serve(self, unit: list[Item], most: int) -> Iterator[dict[str, Any]]:
        if self._process is None or self._served >= _CASES:
            self.close()
            self._start()
        assert self._process is not None and self._process.stdin is not None
        groups = [[g.subject, g.dtype, g.mode, start, g.limit] for g, start in unit]
        self._process.stdin.write(json.dumps({"groups": groups, "most": most}).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            line = self._line(self.timeout)
            self._served += "result" in line
            yield line
            if "done" in line:
                return


def _dead(e: Died) -> str:
    return f"crash or hang: {e}"


def _place(name: str, groups: Iterable[Group]) -> tuple[Group, int]:
    subject, dtype, mode, index = name.rsplit(":", 3)
    (group,) = [g for g in groups if (g.subject, g.dtype, g.mode) == (subject, dtype, mode)]
    return group, int(index)


def _row(name: str, cls: str, reason: str) -> dict[str, Any]:
    return {"id": name, "cls": cls, "reason": reason}
