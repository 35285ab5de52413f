"""The IR's text form, through poot-opt: it round-trips, and what is wrong is refused by name at its line.

Files `errors_*.poot` hold broken graphs, separated by `# ---`; `# error: <id>` marks the line that breaks rule <id>.
All other files are in canonical form: printing what was parsed yields the file, comments aside. `POOT_BLESS=1`
rewrites them.
"""

import os
import pathlib
import random
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OPT = os.environ.get("POOT_OPT", str(ROOT / "build" / "poot-opt"))
GOOD = sorted(p for p in HERE.glob("*.poot") if not p.name.startswith("errors_"))
BAD = sorted(HERE.glob("errors_*.poot"))
ERROR = re.compile(r"# error: ([a-z_0-9]+-C\d+)")


def poot_opt(*args, text=""):
    return subprocess.run([OPT, *args], input=text, capture_output=True, text=True, timeout=60)


def without_comments(text):
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("#"))


def broken_graphs():
    for path in BAD:
        for i, chunk in enumerate(path.read_text().split("# ---\n")):
            lines = [n for n, line in enumerate(chunk.splitlines(), 1) if ERROR.search(line)]
            assert len(lines) == 1, f"{path.name}, graph {i}: one marked line expected"
            yield pytest.param(chunk, lines[0], ERROR.search(chunk)[1], id=f"{path.stem}-{i}-{ERROR.search(chunk)[1]}")


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_text_round_trips(path):
    text = path.read_text()
    out = poot_opt(str(path))
    assert out.returncode == 0, out.stderr
    if os.environ.get("POOT_BLESS") == "1":
        head = re.match(r"(#[^\n]*\n)*", text)[0]
        path.write_text(head + "\n" + out.stdout)
        return
    assert without_comments(out.stdout) == without_comments(text)
    again = poot_opt("-", text=out.stdout)
    assert again.stdout == out.stdout


@pytest.mark.parametrize(("text", "line", "constraint"), broken_graphs())
def test_broken_graph_is_refused_where_it_breaks(text, line, constraint):
    out = poot_opt("--verify-only", "-", text=text)
    assert out.returncode == 1, "accepted"
    found = re.match(r"poot-opt: InvalidGraph (\S+) at (\d+):(\d+): ", out.stderr)
    assert found, out.stderr
    assert (found[1], int(found[2])) == (constraint, line), out.stderr


def test_every_constraint_has_a_test_that_breaks_it():
    ids = poot_opt("--constraints").stdout.split()
    assert len(ids) > 50
    texts = "\n".join(p.read_text() for p in BAD)
    units = "\n".join(p.read_text() for p in (ROOT / "tests" / "unit").glob("*_test.cpp"))
    broken = set(ERROR.findall(texts)) | set(re.findall(r'"([a-z_0-9]+-C\d+)"', units))
    assert [i for i in ids if i not in broken] == []


def test_rules_listed_are_those_that_the_sources_throw():
    """An id in a message that no table lists would escape the test above."""
    ids = set(poot_opt("--constraints").stdout.split())
    sources = [p for p in (ROOT / "csrc" / "ir").glob("*.cpp") if not p.name.startswith("oracle")]
    thrown = {i for p in sources for i in re.findall(r'"([a-z_0-9]+-C\d+)"', p.read_text())}
    assert thrown - ids == set()


def test_evaluates_at_the_hints():
    text = """graph @ramp(s0 in [1, 64] hint 4, %x: f32[s0]) -> (f32[s0], f32[], f32[s0]) {
      %0 = iota {dtype=i64, size=s0, start=1, step=1}
      %1 = cast %0 {to=f32}
      %2 = mul %1, f32 0.5
      %3 = reduce_sum %2 {axes=[0], keepdim=false}
      return %2, %3, %x
    }"""
    out = poot_opt("--evaluate", "-", text=text)
    assert out.returncode == 0, out.stderr
    ramp, total, x = out.stdout.splitlines()
    assert re.fullmatch(r"# @ramp output 0: f32\[s0\] [0-9a-f]{32} 0.5 1 1.5 2", ramp)
    assert total.endswith(" 5")
    assert len(x.split()) == 6 + 4
    assert poot_opt("--evaluate", "-", text=text).stdout == out.stdout
    assert poot_opt("--evaluate", "--seed", "1", "-", text=text).stdout != out.stdout


@pytest.mark.parametrize("args", [["--seed", "x", "-"], ["--no-such-option"], [], ["/no/such/file"], ["a", "b"]])
def test_bad_command_line_is_an_error(args):
    out = poot_opt(*args)
    assert out.returncode == 1
    assert out.stderr.startswith("poot-opt: ")


def test_corrupt_text_never_crashes():
    """Truncated and mutated files, one process each for a sample; the unit tests try thousands."""
    rng = random.Random(5)
    for path in GOOD:
        text = path.read_text()
        for _ in range(4):
            cut = rng.randrange(len(text))
            broken = text[:cut] + chr(rng.randrange(32, 127)) + text[cut + rng.randrange(20) :]
            assert poot_opt("--verify-only", "-", text=broken).returncode in (0, 1)
