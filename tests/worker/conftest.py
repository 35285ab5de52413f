"""Where the worker and ptxas are; neither is optional for these tests."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELC = os.environ.get("POOT_KERNELC") or ROOT / "poot_torch" / "bin" / "poot-kernelc"


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


@pytest.fixture
def kernelc(tmp_path):
    """Runs the worker on KIR text or an object: kernelc(text, *arguments) -> CompletedProcess with bytes."""
    assert pathlib.Path(KERNELC).exists(), f"{KERNELC} was not built"

    def run(text, *arguments, target="x86-64-v4"):
        source = tmp_path / "kernel.kir"
        source.write_text(text)
        command = [KERNELC, "--compile", source, "--target", target, *arguments]
        return subprocess.run([str(c) for c in command], capture_output=True, timeout=120)

    run.binary = str(KERNELC)
    return run
