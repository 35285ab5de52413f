"""Operators without a lowering run through the dispatcher at their place, and are counted."""

import pytest
import torch
from three_way import check
from torch._dynamo.utils import counters

import poot_torch
from poot_torch.backend import poot

F = torch.nn.functional


@torch.no_grad()
def test_single_operators():
    fn = lambda x: (x + 3).view(torch.int64) * 2  # noqa: E731
    check(fn, torch.rand(4, 4, dtype=torch.float64), fallbacks=["aten.view.dtype"], judge=False)


@torch.no_grad()
def test_dispatched_library_calls_are_no_fallbacks():
    check(lambda x: torch.sort(x * 2, dim=0), torch.rand(7, 3))
    check(lambda x: torch.topk(x.t(), 2)[0] + 1, torch.rand(7, 3))
    check(lambda x: torch.linalg.inv(x @ x.t() + torch.eye(4)) * 2, torch.rand(4, 4))
    report = poot_torch.explain(lambda x: torch.sort(x * 2)[0], strict=True)(torch.rand(5))
    assert report.totals()["classes"]["library"] == 1


@torch.no_grad()
def test_custom_operators_are_library_calls():
    """Their own kernel is the only one there is, so that strict mode takes them."""

    @torch.library.custom_op("poot_tests::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubled.register_fake(torch.empty_like)
    check(lambda x: doubled(x + 1).relu(), torch.randn(5, 3))
    report = poot_torch.explain(lambda x: doubled(x + 1).relu(), strict=True)(torch.randn(5, 3))
    assert report.totals()["classes"]["library"] == 1 and not report.fallbacks


@torch.no_grad()
def test_other_dtypes():
    x = torch.rand(4, dtype=torch.complex64)
    check(lambda x: x.logcumsumexp(0) + 1, x, fallbacks=["aten.logcumsumexp.default"], judge=False)


@torch.no_grad()
def test_layouts_around_a_fallback():
    def fn(x):
        y = (x * 2).transpose(0, 1)
        z = y.view(torch.int64)
        return z, z.t() + 1

    check(fn, torch.rand(5, 3, dtype=torch.float64), fallbacks=["aten.view.dtype"], judge=False)


@torch.no_grad()
def test_views_by_fallback_own_their_memory():
    check(lambda x: (x + 1).view(torch.int32) * 2, torch.rand(12), fallbacks=["aten.view.dtype"], judge=False)


@torch.no_grad()
def test_dynamic_size_in_a_fallback():
    torch._dynamo.reset()
    counters.clear()

    def fn(x):
        return torch.topk(x, x.shape[0] // 2)[0] * 2 + x.sum()

    compiled = torch.compile(fn, backend=poot, dynamic=True)
    for n in (6, 10, 21):
        x = torch.rand(n)
        torch.testing.assert_close(compiled(x), fn(x))
    assert not [k for k in counters["poot"] if "fallback" in k]


@torch.no_grad()
def test_whole_graph_runs_in_eager():
    torch._dynamo.reset()
    counters.clear()
    z = torch.arange(3).to(torch.uint16)
    fn = lambda z: z.int() * 2  # noqa: E731
    got = torch.compile(fn, backend=poot)(z)
    torch.testing.assert_close(got, fn(z))
    met = [k for k in counters["poot"] if "fallback" in k]
    assert met, "a fallback happened and nobody says so"
    assert poot_torch.last_report().fallbacks


@torch.no_grad()
def test_operator_that_reads_beyond_its_operand():
    check(lambda x: (x * 2)[::2].as_strided((3, 2), (2, 1)), torch.rand(12), dynamic=True, fallbacks=["graph"])


@torch.no_grad()
def test_nothing_is_counted_when_nothing_falls_back():
    torch._dynamo.reset()
    counters.clear()
    torch.compile(lambda x: F.gelu(x) @ x, backend=poot)(torch.rand(4, 4))
    assert not [k for k in counters["poot"] if "fallback" in k]


@torch.no_grad()
def test_results_of_another_dtype_than_traced():
    """They become what the trace says, or are refused; never is memory read as another dtype than it was written in."""

    @torch.library.custom_op("poot_tests::narrow", mutates_args=())
    def narrow(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return (x * 2).to(dtype)

    narrow.register_fake(lambda x, dtype: torch.empty_like(x))
    x = torch.randn(5, 3).bfloat16().float()

    def compiled(dtype):
        torch._dynamo.reset()
        return torch.compile(lambda x: narrow(x, dtype) + 1, backend=poot)(x)

    for dtype in (torch.bfloat16, torch.float64):
        torch.testing.assert_close(compiled(dtype), x * 2 + 1)
    with pytest.raises(RuntimeError, match="returned Int, traced with Float"):
        compiled(torch.int32)


@torch.no_grad()
def test_loops_whose_length_depends_on_data_are_library_calls():
    a, b = torch.tensor([12, -18, 0, 7]), torch.tensor([8, 27, 5, 0])
    check(lambda a, b: (torch.gcd(a, b) + 1, torch.lcm(a, b)), a, b)
    data, lengths = torch.randn(6, 2), torch.tensor([2, 0, 4])
    check(lambda x, n: torch.segment_reduce(x, "max", lengths=n, initial=0.0) * 2, data, lengths)
