"""Graphs of CUDA tensors without a GPU: traced with fake tensors, imported, and compiled to PTX."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from poot_torch import _C, decompositions
from poot_torch.importer import WholeGraph, import_graph

aten = torch.ops.aten


def tensor(*shape, dtype=torch.bfloat16, device="cuda"):
    return lambda: torch.empty(shape, dtype=dtype, device=device)


def compiled(fn, *makers, target="sm_90a"):
    """(graph's device, kernel names, operators by class)."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        gm = make_fx(fn, decomposition_table=decompositions.table())(*(m() for m in makers))
    imported = import_graph(gm, "inference", {}, compile_body=lambda body: None)
    _, report = _C.compile(imported.graph, imported.signature, imported.calls, device="meta", target=target)
    classes = {}
    for op in report["ops"]:
        classes.setdefault(op["class"], []).append(op["op"])
    return str(imported.device), [k["name"] for k in report["kernels"]], classes


CASES = {
    "pointwise": (lambda x, y: torch.relu(x + y) * 2, [tensor(64, 64), tensor(64, 64)]),
    "host number": (lambda x, s: x * s, [tensor(64, 64), tensor(dtype=torch.float32, device="cpu")]),
    "softmax": (lambda x: torch.softmax(x, -1), [tensor(64, 4096)]),
    "norm": (lambda x, w, b: F.gelu(F.layer_norm(x, (96,), w, b)), [tensor(64, 96), tensor(96), tensor(96)]),
    "column sums": (lambda x: x.sum(0), [tensor(64, 4096)]),
    "embedding": (lambda i, w: F.embedding(i, w), [tensor(4, 16, dtype=torch.int64), tensor(100, 64)]),
    "cross-entropy": (lambda x, t: F.cross_entropy(x, t), [tensor(64, 100), tensor(64, dtype=torch.int64)]),
    "index copy": (
        lambda c, i, x: c.index_copy(2, i, x),
        [tensor(1, 8, 64, 64), tensor(1, dtype=torch.int64), tensor(1, 8, 1, 64)],
    ),
}


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_generated(name, target):
    fn, makers = CASES[name]
    device, kernels, classes = compiled(fn, *makers, target=target)
    assert device == "cuda:0"
    assert kernels and set(classes) <= {"generated", "none"}


def test_products_are_library_calls():
    device, kernels, classes = compiled(lambda x, w: torch.relu(x @ w), tensor(64, 64), tensor(64, 64))
    assert classes["library"] == ["matmul"] and len(kernels) == 1


ATTENTION = {
    "flash": lambda q, k, v: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, scale=0.125)[0],
    "efficient": lambda q, k, v: aten._scaled_dot_product_efficient_attention(q, k, v, None, False, 0.0, True)[0],
    "cudnn": lambda q, k, v: aten._scaled_dot_product_cudnn_attention(q, k, v, None, False, 0.0, True)[0],
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_one_library_call(name):
    fn = ATTENTION[name]
    q = tensor(2, 8, 128, 64)
    _, kernels, classes = compiled(lambda q, k, v: fn(q, k, v) * 2, q, q, q)
    assert classes["library"] == ["attention"] and "fallback" not in classes
    assert len(kernels) == 1


def test_two_devices_are_refused_with_the_place():
    with pytest.raises(WholeGraph, match="several devices: .* on cpu, .* on cuda:0"):
        compiled(lambda x, y: (x + 1, y + 1), tensor(4, 4, device="cpu"), tensor(4, 4))
    with pytest.raises(WholeGraph, match="result on cpu"):
        compiled(lambda x, s: (x + 1, s + 1), tensor(4, 4), tensor(device="cpu", dtype=torch.float32))
