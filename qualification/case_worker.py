"""The process that runs cases, so that a crash or a hang in one costs only that case.

    python -m qualification.case_worker SUITE BACKEND

Reads one request a line on standard input, {"subject", "dtype", "mode", "limit", "start"}, and answers with lines
{"begin": case}, {"result": {…}} for each sample, then {"end": why} with why empty or what the database refused.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from typing import Any

import torch

from qualification.cases import Group, Suite


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what cases print must not mix with the answers
    torch.set_num_threads(1)
    suite: Suite = importlib.import_module(f"qualification.{sys.argv[1]}").SUITE
    against = sys.argv[2]

    def answer(**line: Any) -> None:
        answers.write(json.dumps(line) + "\n")

    answer(ready=True)
    for line in sys.stdin:
        request = json.loads(line)
        start = request.pop("start")
        group = Group(**request)
        answer(begin=group.case(start))
        why = ""
        try:
            for index, run in suite.runs(group, start, against):
                answer(begin=group.case(index))
                answer(result=dataclasses.asdict(run()))
                answer(begin=group.case(index + 1))
        except Exception as e:
            why = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
        answer(end=why)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
