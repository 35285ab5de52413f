"""The process that runs cases, so that a crash or a hang in one costs only that case.

Reads one request a line on standard input, {"op", "dtype", "mode", "start", "stop"}, and answers with lines
{"begin": case}, {"result": {…}} for each sample, then {"end": why} with why empty or what op_db refused.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import Any

import torch

from qualification.op_cases import Group, samples
from qualification.op_run import run_sample


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what operators print must not mix with the answers
    torch.set_num_threads(1)

    def answer(**line: Any) -> None:
        answers.write(json.dumps(line) + "\n")

    answer(ready=True)
    for line in sys.stdin:
        request = json.loads(line)
        group = Group(request["op"], request["dtype"], request["mode"], request["stop"])
        answer(begin=group.case(request["start"]))
        why = ""
        try:
            for sample in samples(group, request["start"]):
                answer(begin=group.case(sample.index))
                answer(result=dataclasses.asdict(run_sample(group, sample)))
                answer(begin=group.case(sample.index + 1))
        except Exception as e:
            why = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
        answer(end=why)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
