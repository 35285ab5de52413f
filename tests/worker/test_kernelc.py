"""poot-kernelc as a tool: what its code looks like, what it refuses, how it ends.

That its code computes the right bits is the matter of tests/unit/worker_arithmetic_test.cpp and worker_memory_test.cpp.
"""

import re
import shutil
import subprocess

import pytest

ROWS = """kernel @rows x86 meta=1 threads=1 {
  buffer %x f32
  buffer %y f32 out
  %n = meta 0 i64
  %zero = constant 0 i64
  %step = constant 16 i64
  %bias = constant 0x3f800000 f32x16
  for %i = %zero to %n step %step {
    %v = load %x[%i] f32x16
    %p = fmul %v, %v f32x16
    %s = fadd %p, %bias f32x16
    store %y[%i, %s] align 64 nontemporal
    yield
  }
}
"""


def assembly(kernelc, text, **kw):
    done = kernelc(text, "--emit-asm", **kw)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_vectors_are_whole_and_nothing_is_contracted(kernelc):
    asm = assembly(kernelc, ROWS)
    assert "%zmm" in asm and "vfmadd" not in asm
    assert "vmulps" in asm and "vaddps" in asm
    assert "vmovntps" in asm and "sfence" in asm
    assert "%zmm" not in assembly(kernelc, ROWS, target="x86-64-v3")


def test_a_written_buffer_does_not_force_reloads(kernelc):
    """Loads of a buffer that nobody writes leave the loop although another buffer is stored to in it."""
    text = ROWS.replace("%v = load %x[%i] f32x16", "%v = load %x[%zero] f32x16")
    loop = re.search(r"(\.LBB0_\d+):[^:]*?vmovntps.*?j\w+\s+\1", assembly(kernelc, text), re.S).group(0)
    assert "vmulps" not in loop
    aliased = text.replace("buffer %x f32", "buffer %x f32 alias").replace("f32 out", "f32 out alias")
    loop = re.search(r"(\.LBB0_\d+):[^:]*?vmovntps.*?j\w+\s+\1", assembly(kernelc, aliased), re.S).group(0)
    assert "vmulps" in loop


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "sapphirerapids"])
def test_code_calls_nothing(kernelc, target):
    """A large copy, a zero fill, a remainder, a division and rounding: each has a library function."""
    text = """kernel @k x86 meta=0 threads=1 {
  buffer %x f64
  buffer %y f64 out
  array %a private f64 4096
  %lo = constant 0 i64
  %hi = constant 4096 i64
  %one = constant 1 i64
  %z = constant 0x0000000000000000 f64
  for %i = %lo to %hi step %one {
    store %a[%i, %z]
    yield
  }
  for %j = %lo to %hi step %one {
    %u = load %x[%j] f64
    store %a[%j, %u]
    yield
  }
  for %k = %lo to %hi step %one {
    %v = load %a[%k] f64
    %w = load %x[%k] f64
    %r = frem %v, %w f64
    %q = frint %r f64
    %f = ffloor %q f64
    %h = fptrunc %f f32
    %hh = fptrunc %h bf16
    %g = fptrunc %h f16
    %e = fpext %hh f32
    %d = fpext %e f64
    store %y[%k, %d]
    yield
  }
}
"""
    assert "call" not in assembly(kernelc, text, target=target)
    assert kernelc(text, target=target).returncode == 0


def test_equal_text_gives_equal_bytes(kernelc):
    first, second = kernelc(ROWS), kernelc(ROWS)
    assert first.returncode == 0 and first.stdout == second.stdout
    assert first.stdout.startswith(b"POOTIMG1")


def test_levels_and_intermediate_forms(kernelc):
    for flag in ("--emit-llvm", "--emit-optimized-llvm"):
        assert b"define hidden void @poot_entry" in kernelc(ROWS, flag).stdout
    assert kernelc(ROWS, "--emit-object").stdout.startswith(b"\x7fELF")
    assert kernelc(ROWS, "--level", "0").stdout.startswith(b"POOTIMG1")


def test_bad_input_is_an_error_with_its_place(kernelc):
    done = kernelc(ROWS.replace("fmul %v, %v", "fmul %v"))
    assert done.returncode == 1 and re.search(rb"kir-C2 at 10:\d+", done.stderr)
    done = kernelc(ROWS, target="vax")
    assert done.returncode == 1 and b"known are" in done.stderr
    done = kernelc(ROWS, target="sm_80")
    assert done.returncode == 1 and b"another instruction set" in done.stderr
    done = kernelc(ROWS.replace("buffer %y", "array %big private f64 1000000\n  buffer %y"))
    assert done.returncode == 1 and b"private arrays" in done.stderr
    for arguments in (["--nonsense"], ["--compile", "/nonexistent.kir"]):
        done = subprocess.run([kernelc.binary, *arguments], capture_output=True, timeout=60)
        assert done.returncode != 0 and done.stderr


def test_the_server_greets_and_ends_with_its_input(kernelc):
    done = subprocess.run([kernelc.binary], input=b"", capture_output=True, timeout=60)
    build_id = subprocess.run([kernelc.binary, "--build-id"], capture_output=True, timeout=60).stdout.strip()
    assert done.returncode == 0 and build_id in done.stdout
    done = subprocess.run([kernelc.binary], input=b"\xff" * 64, capture_output=True, timeout=60)
    assert done.returncode == 1


OBJECTS = {
    # Constants, a switch and a call between two functions of the image: all internal.
    "accepted": (
        """
static __attribute__((noinline)) int pick(int i) {
  switch (i) { case 0: return 3; case 1: return 14; case 2: return 15; case 3: return 92; default: return 65; }
}
static const float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
void entry(float* x, unsigned a, unsigned b) { for (unsigned i = a; i < b; ++i) x[i] = table[i & 7] * pick(i & 3); }
""",
        None,
    ),
    "calls out": ("float expf(float); void entry(float* x) { *x = expf(*x); }", "flatten-C2"),
    "mutable": ("static int n; int entry(void) { return ++n; }", "flatten-C3"),
    "initialised": ("static int n = 5; int entry(void) { return ++n; }", "flatten-C3"),
    "thread-local": ("static __thread int n; int entry(void) { return ++n; }", "flatten-C3"),
    "pointer table": (
        """
static int a(void) { return 1; } static int b(void) { return 2; }
static int (*const table[2])(void) = {a, b};
int entry(int i) { return table[i](); }""",
        "flatten-C3",
    ),
    "absolute address": ("static const int t[64] = {1, 2}; int entry(int i) { return t[i]; }", "flatten-C4"),
    "no entry": ("int other(void) { return 1; }", "flatten-C5"),
}


@pytest.mark.skipif(shutil.which("cc") is None, reason="makes its objects with a C compiler")
@pytest.mark.parametrize("name", OBJECTS)
def test_flatten_refuses_what_an_image_cannot_hold(kernelc, tmp_path, name):
    source, constraint = OBJECTS[name]
    (tmp_path / "k.c").write_text(source)
    place = ["-fno-pic", "-fno-pie", "-mcmodel=small"] if name == "absolute address" else ["-fPIC"]
    flags = ["-O2", "-fvisibility=hidden", "-fno-stack-protector", *place]
    subprocess.run(["cc", *flags, "-c", tmp_path / "k.c", "-o", tmp_path / "k.o"], check=True)
    command = [kernelc.binary, "--flatten", tmp_path / "k.o", "--entry", "entry", "-o", tmp_path / "k.img"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    if constraint is None:
        assert done.returncode == 0, done.stderr.decode()
        assert (tmp_path / "k.img").read_bytes().startswith(b"POOTIMG1")
    else:
        assert done.returncode == 1 and constraint.encode() in done.stderr, done.stderr.decode()


def test_flatten_refuses_damaged_objects(kernelc, tmp_path):
    """C1: wherever an object is cut or overwritten, the answer is an error or an image, never a crash."""
    good = kernelc(ROWS, "--emit-object").stdout

    def flatten(data):
        (tmp_path / "k.o").write_bytes(data)
        command = [kernelc.binary, "--flatten", tmp_path / "k.o", "--entry", "poot_entry", "-o", tmp_path / "k.img"]
        return subprocess.run(command, capture_output=True, timeout=60)

    assert flatten(good).returncode == 0
    for size in (0, 10, 63, 64, len(good) // 2, len(good) - 1):
        done = flatten(good[:size])
        assert done.returncode == 1 and b"flatten-C1" in done.stderr, size
    assert b"flatten-C1" in flatten(b"MZ" + good[2:]).stderr
    for at in range(40, 64):
        assert flatten(good[:at] + b"\xff" + good[at + 1 :]).returncode in (0, 1), at


@pytest.mark.parametrize("target", ["x86-64-v4-bf16", "sapphirerapids"])
def test_bf16_is_widened_and_narrowed_without_shuffles(kernelc, target):
    """Whole vectors of bf16 travel as their even and their odd lanes, rounded by a multiply-add of words."""
    text = """kernel @scaled x86 meta=1 threads=1 {
  buffer %x bf16
  buffer %y bf16 out
  %n = meta 0 i64
  %zero = constant 0 i64
  %step = constant 32 i64
  %some = constant 0x3f8ccccd f32x32
  %none = constant 0x00000000 f32x32
  for %i = %zero to %n step %step {
    %v = load %x[%i] bf16x32
    %w = fpext %v f32x32
    %p = fmul %w, %some f32x32
    %r = fptrunc %p bf16x32
    %rw = fpext %r f32x32
    %q = fadd %rw, %some f32x32
    %s = fptrunc %q bf16x32
    store %y[%i, %s] align 64 nontemporal
    yield
  }
}
"""
    asm = assembly(kernelc, text, target=target)
    assert asm.count("vpdpwssd") == 4 and "vmovntps" in asm or "vmovntdq" in asm
    for shuffle in ("vpmov", "vperm", "vpunpck", "vinsert", "vextract"):
        assert shuffle not in asm, shuffle


HALVES = """kernel @halves x86 meta=0 threads=1 {
  buffer %x bf16
  buffer %y bf16 out
  array %kept private f32 40
  %zero = constant 0 i64
  %tail = constant 32 i64
  %a = load %x[%zero] bf16x32
  %wide = fpext %a f32x32
  store %kept[%zero, %wide]
  %lanes = lane_ids i32x32
  %eight = constant 8 i32x32
  %on = icmp slt %lanes, %eight i1x32
  %none = constant 0 bf16x32
  %b = load_masked %x[%tail, %on, %none] bf16x32
  %rest = fpext %b f32x32
  store_masked %kept[%tail, %on, %rest]
  %other = constant 0 f32x32
  %back = load_masked %kept[%tail, %on, %other] f32x32
  %c = fptrunc %back bf16x32
  store_masked %y[%tail, %on, %c]
}
"""


def test_arrays_hold_whole_vectors_of_halves(kernelc):
    """The odd lanes of a vector that begins at 32 of 40 elements lie from 48 on."""
    done = kernelc(HALVES, "--emit-llvm")
    assert done.returncode == 0, done.stderr
    assert re.findall(rb"alloca \[(\d+) x float\]", done.stdout) == [b"64"]
