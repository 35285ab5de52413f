"""torch.nn.RMSNorm through every stage of a compiler: captured without a break, shapes kept symbolic, one kernel, its
source line attributed, values and gradients against eager and float64 over dtypes, shapes, strides and extremes."""

import pytest
import torch
from three_way import check, gradients
from torch.utils import _pytree as pytree

import poot_torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ids = lambda d: str(d).removeprefix("torch.")  # noqa: E731


class Norm(torch.nn.Module):
    """RMSNorm as a function of its input and weight, so that both are compared and differentiated."""

    def __init__(self, shape, eps):
        super().__init__()
        self.shape, self.eps = shape, eps

    def forward(self, x, weight=None):
        return torch.nn.functional.rms_norm(x, self.shape, weight, self.eps)


def weighted(shape, normalized, dtype, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)
    return x, (1 + 0.1 * torch.randn(normalized, generator=g, dtype=torch.float64)).to(dtype)


@torch.no_grad()
@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
@pytest.mark.parametrize("eps", [None, 1e-5, 0.0])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_values(dtype, eps, affine):
    x, weight = weighted((3, 5, 64), (64,), dtype)
    check(Norm((64,), eps), *((x, weight) if affine else (x,)))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=ids)
@pytest.mark.parametrize(
    ("shape", "normalized"),
    [
        ((4, 1), (1,)),
        ((7, 17), (17,)),
        ((2, 4095), (4095,)),
        ((1, 65537), (65537,)),
        ((5, 6, 7), (6, 7)),
        ((6, 7), (6, 7)),
        ((33,), (33,)),
        ((0, 16), (16,)),
        ((3, 0, 16), (16,)),
        ((2, 1, 1, 3), (1, 3)),
    ],
    ids=str,
)
def test_shapes(shape, normalized, dtype):
    check(Norm(normalized, 1e-6), *weighted(shape, normalized, dtype))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=ids)
def test_strides(dtype):
    x, weight = weighted((8, 6, 64), (64,), dtype)
    for view in (
        x.transpose(0, 1),
        x[:, ::2],
        x[..., ::2].contiguous()[..., :16],
        x.as_strided((5, 7, 64), (64, 320, 1)),
        x[:1, :1].expand(4, 3, 64),
        x.permute(2, 0, 1)[..., :6],
    ):
        check(Norm((view.shape[-1],), 1e-6), view, weight[: view.shape[-1]])


@torch.no_grad()
@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_zeros_and_extremes(dtype):
    top, tiny = torch.finfo(dtype).max, torch.finfo(dtype).tiny
    rows = torch.zeros(8, 32, dtype=dtype)
    rows[1] = -0.0
    rows[2] = tiny
    rows[3] = top
    rows[4, 3] = float("inf")
    rows[5, 3] = float("nan")
    rows[6] = torch.linspace(-1, 1, 32, dtype=torch.float64).to(dtype)
    rows[7, ::2] = top / 4
    for eps in (None, 1e-6):
        check(Norm((32,), eps), rows, torch.ones(32, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_gradients(dtype):
    x, weight = weighted((6, 48), (48,), dtype)
    norm = Norm((48,), 1e-6)

    def loss(x, weight, factors):
        return (norm(x, weight).float() * factors).square().sum()

    gradients(loss, x.requires_grad_(), weight.requires_grad_(), torch.randn(6, 48))


@torch.no_grad()
def test_mixed_weight_dtype():
    x, _ = weighted((4, 32), (32,), torch.bfloat16)
    check(Norm((32,), 1e-6), x, torch.rand(32) + 0.5)


@torch.no_grad()
def test_complex_is_right():
    torch._dynamo.reset()
    x = torch.randn(4, 8, dtype=torch.complex64)
    module = torch.nn.RMSNorm(8, dtype=torch.complex64)
    torch.testing.assert_close(torch.compile(module, backend="poot", options={"strict": True})(x), module(x))


@torch.no_grad()
def test_one_kernel_with_this_file_as_its_source():
    module = torch.nn.RMSNorm(256)

    def fn(x):
        return module(x)  # the line that the kernel is attributed to

    torch._dynamo.reset()
    report = poot_torch.explain(fn, strict=True)(torch.randn(16, 256))
    assert report.totals()["breaks"] == 0 and report.totals()["dispatches_after"] == 1
    ops = [op for graph in report.to_json()["graphs"] for op in graph["ops"]]
    assert len({op["kernel"] for op in ops}) == 1
    sources = {o["source"] for op in ops for o in op["origins"]}
    assert all("test_rmsnorm_conformance.py" in s and "module(x)" in s for s in sources), sources


@torch.no_grad()
def test_symbolic_rows_compile_once():
    torch._dynamo.reset()
    module = torch.nn.RMSNorm(64)
    fn = torch.compile(module, backend="poot", dynamic=True, options={"strict": True})
    for rows in (2, 3, 17, 128, 1000):
        x = torch.randn(rows, 5, 64)
        torch.testing.assert_close(fn(x), module(x))
    report = poot_torch.last_report()
    assert report.totals()["recompilations"] == 0 and report.totals()["graphs"] == 1


def test_module_with_residual_trains_like_eager():
    torch.manual_seed(0)
    block = torch.nn.Sequential(torch.nn.RMSNorm(32), torch.nn.Linear(32, 32), torch.nn.RMSNorm(32))
    x, results = torch.randn(9, 32), {}
    for name, fn in {"eager": block, "poot": torch.compile(block, backend="poot", options={"strict": True})}.items():
        torch._dynamo.reset()
        block.zero_grad()
        (fn(x) + x).square().mean().backward()
        results[name] = [p.grad.clone() for p in block.parameters()]
    for ours, theirs in zip(results["poot"], pytree.tree_leaves(results["eager"]), strict=True):
        torch.testing.assert_close(ours, theirs)
