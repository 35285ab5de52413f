"""Operators over graphs: PyTorch runs the control flow, poot compiles the bodies; nothing falls back."""

import pytest
import torch
import torch.utils.checkpoint
from torch._dynamo.utils import counters
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as higher_order_map
from torch.utils import _pytree as pytree

import poot_torch
from poot_torch.backend import poot

STRICT = {"strict": True}


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))


def nested_branches(x):
    inner = lambda x: torch.cond(x.max() > 1, lambda x: x.exp(), lambda x: x * x, (x,))  # noqa: E731
    return torch.cond(x.sum() > 0, inner, lambda x: x.neg(), (x,)) * 3


def loop(x):
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.1 + 0.1), (torch.tensor(0), x))


def mapped_rows(x):
    return higher_order_map(lambda row: row.exp().sum() + row, x)


def scanned(x):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(x.shape[1]), x)


def tree_scanned(x):
    return associative_scan(lambda a, b: a * b + 1, x, dim=0, combine_mode="generic")


def run(fn, x, dynamic=False):
    """Values of eager and poot, gradients after them where x asks for any."""
    results = []
    for f in (fn, torch.compile(fn, backend=poot, options=STRICT, dynamic=dynamic)):
        leaf = x.detach().clone().requires_grad_(x.requires_grad)
        torch.manual_seed(0)
        outs = pytree.tree_leaves(f(leaf))
        if x.requires_grad:
            sum(o.sum() for o in outs if o.requires_grad).backward()
            outs.append(leaf.grad)
        results.append(outs)
    return results


def compare(fn, x, **options):
    torch._dynamo.reset()
    counters.clear()
    for eager, got in zip(*run(fn, x, **options), strict=True):
        torch.testing.assert_close(got, eager, rtol=1e-6, atol=1e-6)
        assert got.stride() == eager.stride()
    assert not [k for k in counters["poot"] if "fallback" in k]


FUNCTIONS = (branches, nested_branches, mapped_rows, scanned, tree_scanned)


@pytest.mark.parametrize("fn", (*FUNCTIONS, loop))
@pytest.mark.parametrize("sign", (1, -1))
def test_inference(fn, sign):
    compare(fn, torch.rand(6, 5) * sign)


@pytest.mark.parametrize("fn", (mapped_rows, scanned))
def test_long_ones_are_calls_of_a_body(fn):
    compare(fn, torch.rand(70, 5))
    assert "body" in [g.kind for g in poot_torch.last_report().graphs]


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_gradients(fn):
    compare(fn, torch.rand(4, 5).requires_grad_())


@pytest.mark.parametrize("fn", (branches, loop))
def test_dynamic_sizes(fn):
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot, options=STRICT, dynamic=True)
    for n in (6, 11, 17):
        x = torch.rand(n, 5)
        torch.testing.assert_close(compiled(x), fn(x))


def test_one_compile_takes_either_branch():
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(branches, backend=poot, options=STRICT)
    for x in (torch.rand(3, 4), -torch.rand(3, 4), torch.rand(3, 4)):
        torch.testing.assert_close(compiled(x), branches(x))
    assert len(poot_torch.last_report().regions) == 1


def test_the_report_names_control_flow_and_bodies():
    report = poot_torch.explain(branches, strict=True)(torch.rand(3, 4))
    assert [g.kind for g in report.graphs].count("body") == 2
    (outer,) = (g for g in report.graphs if g.kind == "inference")
    assert [op for op in outer.native["ops"] if op["op"] == "higher_order.cond" and op["class"] == "library"]


def test_an_exception_in_a_body_reaches_the_caller():
    def fn(x, i):
        return torch.cond(x.sum() > 0, lambda x, i: x[i] * 2, lambda x, i: x[i] + 1, (x, i))

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot)
    x = torch.rand(4, 3)
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    torch.testing.assert_close(compiled(x, torch.tensor([2])), fn(x, torch.tensor([2])))


def test_checkpoint_repeats_its_draws():
    def fn(x):
        draw = lambda x: torch.nn.functional.dropout(x.sin(), 0.5).relu()  # noqa: E731
        return torch.utils.checkpoint.checkpoint(draw, x, use_reentrant=False).sum()

    compare(fn, torch.rand(8, 16).requires_grad_())
