"""Where the worker is; it is not optional for these tests."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELC = os.environ.get("POOT_KERNELC") or ROOT / "poot_torch" / "bin" / "poot-kernelc"


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
