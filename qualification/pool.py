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
from collections.abc import Iterator
from typing import Any

from qualification.cases import Group

_REQUESTS = 200  # that one process serves, since Dynamo's memory grows


class Died(Exception):
    """The worker is gone or out of time."""


class Worker:
    """One process; started on first use and again after a death."""

    def __init__(self, suite: str, against: str, timeout: float) -> None:
        self.suite, self.against, self.timeout = suite, against, timeout
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

    def run(self, group: Group, start: int = 0) -> Iterator[dict[str, Any]]:
        """Results of the group's cases from `start`, as they come. A death costs the case that was running."""
        failures = 0
        while start < group.limit and failures < 3:
            current = group.case(start)
            try:
                for line in self._serve(group, start):
                    if "begin" in line:
                        current = line["begin"]
                        start = int(current.rsplit(":", 1)[1])
                    elif "result" in line:
                        yield line["result"]
                    elif line["end"]:
                        yield {"id": group.case(start), "cls": "skipped", "reason": f"no samples: {line['end']}"}
                return
            except Died as e:
                failures += 1
                yield {"id": current, "cls": "wrong", "reason": f"crash or hang: {e}"}
                start += 1

    def _serve(self, group: Group, start: int) -> Iterator[dict[str, Any]]:
        if self._process is None or self._served >= _REQUESTS:
            self.close()
            self._start()
        assert self._process is not None and self._process.stdin is not None
        self._served += 1
        request = dataclasses.asdict(group) | {"start": start}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            line = self._line(self.timeout)
            yield line
            if "end" in line:
                return
