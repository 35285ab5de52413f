"""`--device cuda` runs these tests on a GPU: tensors that a test makes lie there."""

import functools

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where the tests' tensors lie")


@pytest.fixture(autouse=True)
def device(request, monkeypatch):
    name = request.config.getoption("--device")
    if name == "cpu":
        yield name
        return
    monkeypatch.setattr(torch, "Generator", functools.partial(torch.Generator, device=name))
    with torch.device(name):
        yield name
