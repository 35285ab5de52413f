"""Kernels of a GPU, compiled by the worker and assembled by ptxas for the oldest chip, for Ampere and for Hopper: every
kind that the generators make (kinds.poot: whole programs, planned), the demo models' kernels, and single requests.

What makes the kernels fast is checked in their PTX: accesses of 16 bytes, exchange within a warp, no memory of a
thread's own; ptxas counts registers spilled.
"""

import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
OPT = os.environ.get("POOT_OPT", str(ROOT / "build" / "poot-opt"))
KERNELC = os.environ.get("POOT_KERNELC") or ROOT / "poot_torch" / "bin" / "poot-kernelc"
CHIPS = ["sm_75", "sm_80", "sm_90a"]


def graphs_of(path):
    return {re.match(r"graph @(\w+)", text)[1]: text for text in path.read_text().split("\n\n")}


GRAPHS = {
    name: text for path in sorted(HERE.glob("*.poot")) if path.stem != "kinds" for name, text in graphs_of(path).items()
}
KINDS = graphs_of(HERE / "kinds.poot")
MODELS = sorted((HERE.parent / "models").glob("*.poot"))
ROWS = [name for name, text in GRAPHS.items() if "reduce_" in text]
# Lengths that no vector divides in every row: elements one by one.
UNALIGNED = ["unknown_length_f32"]


def run(command, text=None):
    done = subprocess.run([str(c) for c in command], input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="session")
def ptx_of(tmp_path_factory):
    assert pathlib.Path(KERNELC).exists(), f"{KERNELC} was not built"
    folder = tmp_path_factory.mktemp("kernels")
    made = {}

    def make(name, chip):
        if (name, chip) not in made:
            kir = folder / f"{name}.{chip}.kir"
            kir.write_text(run([OPT, "--lower", "--target", chip, "-"], GRAPHS[name]).stdout)
            made[name, chip] = run([KERNELC, "--compile", kir, "--target", chip]).stdout
        return made[name, chip]

    return make


def kernels_of(graph, chip):
    """The kernels of a graph's plan, as KIR."""
    text = run([OPT, "--kernels", "--target", chip, "-"], graph).stdout
    assert not re.findall(r"^#.*", text, re.M)
    return re.findall(r"^kernel .*?^}\n", text, re.M | re.S)


def assemble(ptxas, kernelc, kernels, chip, folder):
    """Each distinct kernel through the worker and all of them, as one file, through ptxas; what ptxas tells."""
    text, head = [], ""
    for i, kir in enumerate(dict.fromkeys(kernels)):
        source = folder / f"{i}.kir"
        source.write_text(kir)
        ptx = run([kernelc, "--compile", source, "--target", chip]).stdout
        head, _, body = ptx.partition(".address_size 64\n")
        names = re.findall(r"^\.visible \.entry (\w+)|\.(?:global|shared|const) .*?(\w+)\[", body, re.M)
        own = "|".join({first or second for first, second in names})
        text.append(re.sub(rf"\b({own})(?=\b|_param)", lambda m, i=i: f"{m[0]}_k{i}", body))
    (folder / "all.ptx").write_text(head + ".address_size 64\n" + "\n".join(text))
    return run([ptxas, f"-arch={chip}", "-v", "-o", folder / "all.cubin", folder / "all.ptx"]).stderr


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", KINDS)
def test_ptxas_accepts_every_kind(ptxas, tmp_path, name, chip):
    kernels = kernels_of(KINDS[name], chip)
    assert kernels
    told = assemble(ptxas, KERNELC, kernels, chip, tmp_path)
    assert told.count("Used ") == len(set(kernels))
    assert "0 bytes spill stores" in told and not re.search(r"[1-9]\d* bytes spill", told)


@pytest.mark.parametrize("chip", CHIPS)
def test_ptxas_accepts_the_demo_models(ptxas, tmp_path, chip):
    kernels = [k for path in MODELS for k in kernels_of(path.read_text(), chip)]
    told = assemble(ptxas, KERNELC, kernels, chip, tmp_path)
    assert told.count("Used ") == len(set(kernels)) > 50


@pytest.mark.parametrize("chip", CHIPS)
def test_atomic_accesses(ptxas, tmp_path, chip):
    """Instructions where the chip has them, for the device; else compare and exchange."""
    source, ptx = HERE.parent / "kir" / "atomics_ptx.kir", tmp_path / "k.ptx"
    ptx.write_text(run([KERNELC, "--compile", source, "--target", chip]).stdout)
    run([ptxas, f"-arch={chip}", "-o", tmp_path / "k.cubin", ptx])
    own = re.findall(r"(?:red|atom)(?:\.relaxed)?\.gpu\.global\.(\w+(?:\.noftz)?\.\w+)", ptx.read_text())
    assert {"add.f32", "add.f64", "add.noftz.f16", "max.s32", "max.s64", "max.u32", "min.u64"} <= set(own)
    assert {"add.u32", "add.u64"} <= set(own) or {"add.s32", "add.s64"} <= set(own)
    assert ("add.noftz.bf16" in own) == (chip == "sm_90a")


def test_sums_of_few_rows_are_made_in_parts():
    for name in ("scatter_add_in_parts_f32", "count_i64"):
        kernels = kernels_of(KINDS[name], "sm_90a")
        names = [re.match(r"kernel @(\w+)", k)[1].removeprefix("scatter_update") for k in kernels]
        assert names[-4:] == ["_zero", "_parts", "_total", ""]
        assert not any("atomic" in k for k in kernels)


@pytest.mark.parametrize("name", [n for n in KINDS if n.startswith("atomic_")])
def test_what_needs_no_order_is_combined_atomically(name):
    kernel = kernels_of(KINDS[name], "sm_90a")[-1]
    assert kernel.count("atomic_") == 1


def test_all_kinds_of_requests_are_here():
    """Split and whole reductions, rows, products, scatters, movement: by the names of the planned kernels."""
    names = {re.match(r"kernel @(\w+)", k)[1] for g in KINDS.values() for k in kernels_of(g, "sm_90a")}
    for part in ("_parts", "reduce_sum", "scatter", "copy", "matmul", "max_pool", "gather", "concat", "scan_sum_parts"):
        assert any(part in name for name in names), (part, sorted(names))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", GRAPHS)
def test_ptxas_accepts_it_and_spills_nothing(ptx_of, ptxas, tmp_path, name, chip):
    source = tmp_path / "k.ptx"
    source.write_text(ptx_of(name, chip))
    done = run([ptxas, f"-arch={chip}", "-v", "-o", tmp_path / "k.cubin", source])
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in done.stderr
    registers = int(re.search(r"Used (\d+) registers", done.stderr)[1])
    threads = int(re.search(r"\.reqntid (\d+)", source.read_text())[1])
    assert registers * threads <= 65536, f"{registers} registers of {threads} threads"


@pytest.mark.parametrize("name", GRAPHS)
def test_no_thread_has_memory_of_its_own(ptx_of, name):
    assert ".local" not in ptx_of(name, "sm_90a")


@pytest.mark.parametrize("name", [n for n in GRAPHS if n not in UNALIGNED])
def test_accesses_are_16_bytes(ptx_of, name):
    ptx = ptx_of(name, "sm_90a")
    assert re.search(r"ld\.global(\.cs)?\.nc(\.\w+)*\.(v4\.b32|v2\.b64)", ptx)
    assert re.search(r"st\.global(\.cs)?\.(v4\.b32|v2\.b64)", ptx)


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_reduced_by_exchange(ptx_of, name):
    ptx = ptx_of(name, "sm_90a")
    exchanges = len(re.findall(r"shfl\.sync\.bfly", ptx))
    lanes = 16 if name == "softmax_short_f32" else 32
    assert exchanges == GRAPHS[name].count("= reduce_") * (lanes.bit_length() - 1)
    several_warps = int(re.search(r"\.reqntid (\d+)", ptx)[1]) > 32 and name not in ("softmax_short_f32",)
    assert ("bar.sync" in ptx) == several_warps


def test_a_row_in_registers_is_read_once(ptx_of):
    """4096 columns of bf16 are four vectors for each of 128 threads."""
    ptx = ptx_of("softmax_bf16", "sm_90a")
    assert re.search(r"\.reqntid 128\b", ptx)
    assert len(re.findall(r"ld\.global", ptx)) == 4
    assert len(re.findall(r"st\.global", ptx)) == 4


def test_the_second_walk_of_a_row_passes_through_the_cache(ptx_of):
    ptx = ptx_of("softmax_long_f16", "sm_80")
    first, second = ptx[: ptx.rindex("shfl.sync")], ptx[ptx.rindex("shfl.sync") :]
    assert "ld.global.cs.nc.v4" in second and "st.global.cs.v4" in second
    assert ".cs" not in first


def test_a_long_row_is_shared_by_a_cluster(ptx_of):
    """131072 columns, walked twice: a sixteenth of a megabyte for each of eight workgroups."""
    ptx = ptx_of("softmax_long_f16", "sm_90a")
    assert ".reqnctapercluster 8" in ptx
    assert len(re.findall(r"barrier\.cluster\.wait", ptx)) == 3
    assert "mapa" in ptx and "st.shared::cluster" in ptx
    assert "cluster" not in ptx_of("softmax_long_f16", "sm_80")


def test_what_lies_across_is_turned_in_workgroup_memory(ptx_of):
    ptx = ptx_of("transposed_bf16", "sm_90a")
    assert len(re.findall(r"ld\.shared\.v4\.b32|ld\.shared\.v2\.b64", ptx)) == 1
    assert "bar.sync" in ptx


def test_what_ends_as_bf16_takes_the_cheap_functions(ptx_of):
    """About 27 issue slots are left to each element beside its reading and writing."""
    ptx = ptx_of("gelu_bf16", "sm_90a")
    assert "ex2.approx.ftz" in ptx and "table" not in ptx
    assert "selp" not in ptx  # no choice between two formulas


def test_arithmetic_in_f32_is_that_of_the_oracle(ptx_of):
    """All but 2^x, which is within 2 ulp where its argument is reduced exactly."""
    for name in GRAPHS:
        if not name.endswith("f32"):
            continue
        ptx = ptx_of(name, "sm_90a")
        assert not re.search(r"\.ftz|\.approx", re.sub(r"ex2\.approx(\.ftz)?", "", ptx)), name
