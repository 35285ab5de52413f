"""The demo models' graphs at a tiny size, as text: the C++ tests send each of their kernels through its generator
and interpret it against the oracle. Here: the committed text is what the importer makes today.

POOT_BLESS=1 rewrites tests/codegen/models.
"""

import os
import pathlib
import re

import pytest
import torch

from poot_torch import _C, demo_models
from poot_torch.lowerings import activations

FOLDER = pathlib.Path(__file__).parent.parent / "codegen" / "models"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
CASES = [(c.name, d) for c in demo_models.CASES for d in DTYPES]


def imported_text(name, dtype, monkeypatch):
    """The graph that the importer hands to the compiler, without where it came from."""
    texts = []
    compile_graph = _C.compile

    def record(graph, *args, **kwargs):
        texts.append(graph.text)
        return compile_graph(graph, *args, **kwargs)

    monkeypatch.setattr(_C, "compile", record)
    every = frozenset((torch.float32, torch.bfloat16, torch.float16))
    monkeypatch.setattr(activations, "host_gelu", lambda: (every, True))  # on every machine
    torch._dynamo.reset()
    instance = demo_models.case(name).build(DTYPES[dtype], 0, tiny=True)
    instance.reset()
    with torch.no_grad():
        torch.compile(instance.fn, backend="poot", options={"strict": True}, fullgraph=True)(*instance.args)
    (text,) = texts
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("origin ")]
    return "\n".join(re.sub(r" loc\([\d,]*\)", "", line) for line in lines) + "\n"


@pytest.mark.parametrize("name, dtype", CASES)
def test_committed_graph_is_what_is_imported(name, dtype, monkeypatch):
    text = imported_text(name, dtype, monkeypatch)
    path = FOLDER / f"{name}-{dtype}.poot"
    if os.environ.get("POOT_BLESS") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    if torch.__version__.startswith("2.13."):  # another torch may decompose or name things otherwise
        assert path.read_text() == text, f"POOT_BLESS=1 rewrites {path.name}"


def test_every_case_has_its_file_and_no_other():
    assert {p.stem for p in FOLDER.glob("*.poot")} == {f"{n}-{d}" for n, d in CASES}
