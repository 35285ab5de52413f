"""Where ptxas is; it is not optional for the tests that use it."""

import pathlib
import shutil
import sys

import pytest


def find_ptxas():
    """On the path, else in the wheel nvidia-cuda-nvcc of this interpreter."""
    found = shutil.which("ptxas")
    if found:
        return found
    for entry in sys.path:
        for candidate in pathlib.Path(entry).glob("nvidia/**/bin/ptxas"):
            return str(candidate)
    return None


@pytest.fixture(scope="session")
def ptxas():
    found = find_ptxas()
    if not found:
        pytest.fail("ptxas is neither on PATH nor in the wheel nvidia-cuda-nvcc")
    return found
