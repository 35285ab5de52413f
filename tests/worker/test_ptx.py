"""PTX of the worker: assembled by ptxas for both supported chips, with the accesses that make it fast."""

import re
import subprocess

import pytest

# A row reduction: wide loads of f32 and bf16, exchange in the warp, workgroup memory, a fault.
ROWS = """kernel @rows ptx meta=1 threads=128 {
  buffer %x f32
  buffer %h bf16
  buffer %y f32 out
  buffer %z bf16 out
  array %part workgroup f32 4
  array %keep private f32 4
  table %t f32 [0x3f800000, 0x40000000, 0x40400000, 0x40800000]
  %n = meta 0 i64
  %b = block_id 0 i64
  %t0 = thread_id i32
  %t64 = sext %t0 i64
  %four = constant 4 i64
  %eight = constant 8 i64
  %base = imul %b, %n i64
  %o4 = imul %t64, %four i64
  %at = iadd %base, %o4 i64
  %v = load %x[%at] f32x4 align 16
  %o8 = imul %t64, %eight i64
  %at8 = iadd %base, %o8 i64
  %w = load %h[%at8] bf16x8 align 16
  %wide = fpext %w f32x8
  %twice = fadd %wide, %wide f32x8
  %narrow = fptrunc %twice bf16x8
  store %z[%at8, %narrow] align 16
  %zero64 = constant 0 i64
  store %keep[%zero64, %v]
  %kept = load %keep[%zero64] f32x4
  %square = fmul %kept, %v f32x4
  %four_sums = fadd %square, %v f32x4
  %s = reduce_fadd %four_sums f32
  %s1 = shuffle_xor 16 %s f32
  %s2 = fadd %s, %s1 f32
  %d = fpext %s2 f64
  %d1 = shuffle_xor 8 %d f64
  %ds = fadd %d, %d1 f64
  %s3 = fptrunc %ds f32
  %s4 = shuffle_down 1 %s3 f32
  %lanes = constant 31 i32
  %zero = constant 0 i32
  %lane = band %t0, %lanes i32
  %first = icmp eq %lane, %zero i1
  %five = constant 5 i32
  %warp = lshr %t0, %five i32
  %warp64 = sext %warp i64
  if %first {
    store %part[%warp64, %s4]
    yield
  } else {
    yield
  }
  barrier
  %p = load %part[%warp64] f32
  %scale = lookup %t[%warp] f32
  %ps = fmul %p, %scale f32
  %n5 = constant -140 i32
  %tiny = fscale %ps, %n5 f32
  %m = fmantissa %tiny f32
  %spread = splat %m f32x4
  %q = fdiv %v, %spread f32x4
  %r = fsqrt %q f32x4
  %i = fptosi %r i32x4
  %f = sitofp %i f32x4
  store %y[%at, %f] align 16
  fail 1 %first
}
"""


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_ptxas_accepts_a_row_kernel(kernelc, ptxas, tmp_path, chip):
    done = kernelc(ROWS, target=chip)
    assert done.returncode == 0, done.stderr.decode()
    ptx = done.stdout.decode()
    (tmp_path / "k.ptx").write_text(ptx)
    command = [ptxas, f"-arch={chip}", "-v", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"]
    assembled = subprocess.run(command, capture_output=True, timeout=120)
    assert assembled.returncode == 0, assembled.stderr.decode()
    assert b"0 bytes stack frame, 0 bytes spill stores" in assembled.stderr


def test_the_accesses_are_wide_and_the_arithmetic_is_exact(kernelc):
    ptx = kernelc(ROWS, target="sm_90a").stdout.decode()
    assert len(re.findall(r"ld\.global\.nc\.v4\.b32", ptx)) == 2
    assert len(re.findall(r"st\.global\.v4\.b32", ptx)) == 2
    assert "shfl.sync.bfly" in ptx and "shfl.sync.down" in ptx and "bar.sync" in ptx
    assert ".local" not in ptx, "a private array that fits in registers went to memory"
    assert "fma." not in ptx and ".ftz" not in ptx and ".approx" not in ptx
    assert "cvt.rn.bf16x2.f32" in ptx
    assert re.search(r"\.reqntid 128\b", ptx)
    assert re.search(r"(atom|red)[.\w]*\.or\.b32", ptx)
    assert ".visible .entry poot_rows(" in ptx and ptx.count(".param .u64 .ptr") == 5


def test_a_dependent_kernel_waits_before_it_touches_memory(kernelc, ptxas, tmp_path):
    rows = ROWS.replace("[%at8] bf16x8 align 16", "[%at8] bf16x8 align 16 nontemporal")
    assert "ld.global.cs.nc" in kernelc(rows, target="sm_90a").stdout.decode()
    ptx = kernelc(rows.replace("threads=128 {", "threads=128 dependent {"), target="sm_90a").stdout.decode()
    lets, waits = ptx.index("griddepcontrol.launch_dependents;"), ptx.index("griddepcontrol.wait;")
    accesses = [m.start() for m in re.finditer(r"\b(ld|st|atom|red)\.(?!param|shared)", ptx)]
    assert lets < waits < min(accesses)
    # Kernels before may still write buffers when this one begins; nobody writes the table.
    assert re.findall(r"ld\.global[.\w]*\.nc[.\w]*", ptx) == ["ld.global.nc.b32"]
    (tmp_path / "k.ptx").write_text(ptx)
    command = [ptxas, "-arch=sm_90a", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"]
    assembled = subprocess.run(command, capture_output=True, timeout=120)
    assert assembled.returncode == 0, assembled.stderr.decode()
    assert "griddepcontrol" not in kernelc(rows, target="sm_90a").stdout.decode()


def test_a_buffer_that_may_alias_is_read_coherently(kernelc):
    ptx = kernelc(ROWS.replace("buffer %x f32", "buffer %x f32 alias"), target="sm_90a").stdout.decode()
    assert len(re.findall(r"ld\.global\.nc\.v4\.b32", ptx)) == 1
