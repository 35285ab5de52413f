"""The process that runs cases, so that a crash or a hang costs only those that were running.

    python -m qualification.case_worker SUITE BACKEND

Reads one request a line on standard input, {"groups": [[subject, dtype, mode, start, limit], …], "most": cases to run
at once}, all groups of one mode. Answers with lines {"begin": [case, …]} before cases run, {"result": {…}} for each,
{"end": number of the group, "at": sample, "why": what the database refused, or ""} for each group, {"done": true}.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pathlib
import re
import sys
from typing import Any

import torch

from qualification.cases import Group, Suite

# The folders of this machine in what is told: of the repository and of installed packages.
FOLDERS = re.compile(rf"{re.escape(str(pathlib.Path(__file__).resolve().parent.parent))}/|/[^\s\"']*/site-packages/")


def without_folders(text: str) -> str:
    """`text` with files named from the repository's or the package's folder on, the same on every machine."""
    return FOLDERS.sub("", text)


class Session:
    """Serves one request."""

    def __init__(self, suite: Suite, against: str, answers: Any, request: dict[str, Any]) -> None:
        self._suite, self._against, self._answers = suite, against, answers
        self._groups = [(Group(s, dtype, mode, limit), start) for s, dtype, mode, start, limit in request["groups"]]
        self._most = request["most"] if suite.together else 1
        self._names: list[str] = []
        self._runs: list[Any] = []
        self._ends: list[dict[str, Any]] = []

    def serve(self) -> None:
        for number, (group, start) in enumerate(self._groups):
            why, at = "", start
            try:
                for index, run in self._suite.runs(group, start, self._against):
                    self._names.append(group.case(index))
                    self._runs.append(run)
                    at = index + 1
                    if len(self._runs) == self._most:
                        self._run()
            except Exception as e:
                why = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
            self._ends.append({"end": number, "at": at, "why": why})
        self._run()
        self._say(done=True)

    def _run(self) -> None:
        if self._runs:
            self._say(begin=self._names)
            runs, self._names, self._runs = self._runs, [], []
            together = self._suite.together
            for result in together(runs, self._against) if together else (run() for run in runs):
                self._say(result=dataclasses.asdict(result))
        for end in self._ends:
            self._say(**end)
        self._ends = []

    def _say(self, **line: Any) -> None:
        self._answers.write(without_folders(json.dumps(line)) + "\n")


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what cases print must not mix with the answers
    torch.set_num_threads(1)
    suite: Suite = importlib.import_module(f"qualification.{sys.argv[1]}").SUITE
    answers.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        Session(suite, sys.argv[2], answers, json.loads(line)).serve()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
