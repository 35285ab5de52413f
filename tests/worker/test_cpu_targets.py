"""Every function of a kernel as code of each CPU that the compiler knows: in vectors, and without a call."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPT = os.environ.get("POOT_OPT", str(ROOT / "build" / "poot-opt"))
UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos sinh cosh asinh acosh atanh "
    "tanh sigmoid erf erfc gelu_erf floor round"
).split()
BINARY = "div floor_div remainder fmod pow atan2 maximum".split()
# A register of the target's width, and how it calls.
TARGETS = {
    "x86-64-v3": (r"%ymm\d", r"\bcallq?\b"),
    "x86-64-v4": (r"%zmm\d", r"\bcallq?\b"),
    "x86-64-v4-bf16": (r"%zmm\d", r"\bcallq?\b"),
    "neoverse-n1": (r"\bv\d+\.4s", r"\bblr?\b"),
}


def graph(op, dtype):
    t = f"{dtype}[4096]"
    if op in BINARY:
        return f"graph @f(%x: {t}, %y: {t}) -> ({t}) {{\n  %z = {op} %x, %y : {t}\n  return %z\n}}\n"
    return f"graph @f(%x: {t}) -> ({t}) {{\n  %z = {op} %x : {t}\n  return %z\n}}\n"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("op", UNARY + BINARY)
def test_function(kernelc, tmp_path, op, dtype, target):
    source = tmp_path / "f.poot"
    source.write_text(graph(op, dtype))
    lowered = subprocess.run([OPT, "--lower", "--target", target, source], capture_output=True, text=True, timeout=60)
    assert lowered.returncode == 0, lowered.stderr
    done = kernelc(lowered.stdout, "--emit-asm", target=target)
    assert done.returncode == 0, done.stderr.decode()
    asm = done.stdout.decode()
    vector, call = TARGETS[target]
    assert re.search(vector, asm)
    assert not re.search(call, asm)
