"""A short fixed sample of every suite of cases: each case is of the class that the committed list expects of it.

An unexpected success fails too: then `python -m qualification SUITE --sample --bless` rewrites the list.
"""

import dataclasses
import importlib
import json
import pathlib

import pytest
import torch

import qualification

FOLDER = pathlib.Path(qualification.__file__).with_name("samples")
SUITES = ("modules", "optimizers", "models", "training", "mutation", "dynamic", "breaks")
CASES = [(suite, *item) for suite in SUITES for item in json.loads((FOLDER / f"{suite}.json").read_text()).items()]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("name", "case", "expected"), CASES, ids=[f"{s}-{c}" for s, c, _ in CASES])
def test_case(name, case, expected):
    suite = importlib.import_module(f"qualification.{name}").SUITE
    group, index = suite.parse(case)
    _, run = next(suite.runs(dataclasses.replace(group, limit=index + 1), index, "poot"))
    result = run()
    assert result.cls == expected, result.reason
