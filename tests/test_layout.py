"""The structure of the tree: who may include whom, where facts live, and that nothing is dead.

Each rule is checked against the sources as text.
"""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"

# folder -> folders it may include besides itself; longest prefix wins. A name with a dot is one header.
MAY_INCLUDE = {
    "support": set(),
    "ir": {"support"},
    "program": {"support"},
    "passes": {"ir", "program", "support", "codegen/target.h"},
    "codegen": {"passes/request.h", "ir", "program", "support"},
    "codegen/llvm": {"codegen", "ir", "program", "support", "runtime/worker_protocol.h"},
    "runtime": {"program", "support", "codegen/target.h"},
    "compiler": {"support", "ir", "program", "passes", "codegen", "runtime"},
    "binding": {"support", "ir", "program", "passes", "codegen", "runtime", "compiler"},
    "tools": {"support", "ir", "program", "passes", "codegen", "runtime", "compiler"},
}
FOREIGN = {  # outside header prefixes -> the only folders that may see them
    "llvm/": {"codegen/llvm", "tools/kernelc.cpp"},
    "ATen/": {"binding"},
    "torch/": {"binding"},
    "c10/": {"binding"},
    "pybind11/": {"binding"},
}
LINE_LIMIT = 600


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in out.stdout.split()]


def sources():
    return [p for p in tracked("csrc") if p.suffix in (".cpp", ".h")]


def owner(rel):
    """The row of MAY_INCLUDE that rules a path relative to csrc."""
    return max((k for k in MAY_INCLUDE if rel.startswith(k + "/")), key=len)


def includes(path):
    return re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', path.read_text(), re.M)


def test_every_folder_has_a_rule():
    for p in sources():
        rel = p.relative_to(CSRC).as_posix()
        assert any(rel.startswith(k + "/") for k in MAY_INCLUDE), f"no include rule covers {rel}"


def test_include_rules():
    wrong = []
    for p in sources():
        rel = p.relative_to(CSRC).as_posix()
        row = owner(rel)
        for inc in includes(p):
            if (CSRC / inc).exists():
                home = owner(inc)
                allowed = MAY_INCLUDE[row]
                ok = home == row or home in allowed or inc in allowed or inc.split("/")[0] in allowed
                if home == "codegen/llvm" and row != "codegen/llvm" and rel != "tools/kernelc.cpp":
                    ok = False
                if not ok:
                    wrong.append(f"{rel} includes {inc}")
            for prefix, folders in FOREIGN.items():
                if inc.startswith(prefix) and not any(rel.startswith(f) for f in folders):
                    wrong.append(f"{rel} includes <{inc}>")
    assert not wrong, "\n".join(wrong)


def test_no_header_is_dead():
    included = {inc for p in [*sources(), *tracked("tests/*.cpp", "tests/**/*.cpp")] for inc in includes(p)}
    included |= set(re.findall(r"csrc/(\S+\.h)\b", (ROOT / "CMakeLists.txt").read_text()))  # precompiled
    dead = [rel for p in sources() if p.suffix == ".h" and (rel := p.relative_to(CSRC).as_posix()) not in included]
    assert not dead, f"headers that nothing includes: {dead}"


def test_every_header_is_guarded_and_documented():
    for p in sources():
        if p.suffix == ".h":
            text = p.read_text()
            assert "#pragma once" in text, p
            assert text.startswith("//"), f"{p} does not open with its contract"


def test_no_python_module_is_dead():
    names = {}
    for p in tracked("poot_torch/*.py", "poot_torch/**/*.py"):
        rel = p.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        if not rel.endswith(("__init__", "__main__", "demo")):
            names[rel] = p
    text = "\n".join(p.read_text() for p in tracked("*.py", "*.toml", "Makefile"))
    text = re.sub(r"(import \()([^)]*)\)", lambda m: m[1] + " ".join(m[2].split()), text)
    for name, path in names.items():
        stem = name.rsplit(".", 1)[-1]
        assert re.search(rf"(import|from)\s[^\n]*\b{stem}\b|\b{re.escape(name)}\b|\"{stem}\"", text), (
            f"nothing imports {path}"
        )


def test_files_are_small():
    long = []
    for p in tracked("csrc", "poot_torch", "qualification", "tests"):
        if p.suffix in (".cpp", ".h", ".py") and not p.name.startswith("tables"):  # numbers only
            n = len(p.read_text().splitlines())
            if n > LINE_LIMIT:
                long.append(f"{p.relative_to(ROOT)}: {n} lines")
    assert not long, "split by what they do: " + ", ".join(long)


def test_environment_variables_are_in_the_table():
    table = set(re.findall(r"^ENV\((\w+)", (CSRC / "support/env.def").read_text(), re.M))
    for p in sources():
        rel = p.relative_to(CSRC).as_posix()
        found = set(re.findall(r'"(POOT_[A-Z_]+)"', p.read_text()))
        if rel == "support/env.def":
            continue
        assert found <= table, f"{rel} names {found - table}, which env.def does not"
        if not rel.startswith("support/env"):
            assert "getenv" not in p.read_text(), f"{rel} reads the environment past support/env.h"


def op_rows():
    return re.findall(r"^OP\((\w+), (\w+)", (CSRC / "ir/ops.def").read_text(), re.M)


STRUCTURAL = [
    "ir/print", "ir/parse", "ir/verify", "ir/graph", "ir/builder", "ir/edit", "ir/op",
    "passes/cse", "passes/dce", "passes/runner", "passes/request",
]  # fmt: skip


@pytest.mark.parametrize("stem", STRUCTURAL)
def test_structural_code_names_no_op(stem):
    for p in sources():
        rel = p.relative_to(CSRC).as_posix()
        if not re.match(rf"{stem}(_\w+)?\.(cpp|h)$", rel):
            continue
        named = re.findall(r"OpCode::(\w+)", p.read_text())
        named = [n for n in named if n in {name for name, _ in op_rows()}]
        assert not named, f"{rel} names {named}; the op table should say it"


def test_adding_a_pointwise_op_touches_few_files():
    """A pointwise op may appear in ops.def, scalar semantics, math, and rewrites; nowhere else in C++ (but a scan's
    step, and attention written out, where they are made of others)."""
    allowed = ("ir/ops.def", "ir/scalar_eval", "codegen/math/", "passes/canonicalize", "ir/cost_class")
    allowed += ("codegen/generate/scan_function.cpp", "passes/expand_attention.cpp")
    for op in ("exp", "tanh", "erf", "log1p", "atan2", "copysign"):
        for p in sources():
            rel = p.relative_to(CSRC).as_posix()
            if not rel.startswith(allowed):
                assert f"OpCode::{op}" not in p.read_text(), f"{rel} names OpCode::{op}"


def test_no_unfinished_work():
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bfor now\b|NotImplementedError|\bplaceholder\b(?!\")")
    found = []
    for p in tracked("csrc", "poot_torch", "qualification"):
        if p.suffix in (".cpp", ".h", ".def", ".py"):
            for i, line in enumerate(p.read_text().splitlines(), 1):
                if marks.search(line):
                    found.append(f"{p.relative_to(ROOT)}:{i}: {line.strip()}")
    assert not found, "\n".join(found)
