"""Layouts of what a forward keeps for its backward: rows at multiples of 16 bytes. The test says that the host's
libraries profit too, and works without a GPU."""

import pytest
import torch

from poot_torch import saved_layouts

ROWS, INNER, COLUMNS = 24, 32, 1001


@pytest.fixture(autouse=True)
def on_this_device(monkeypatch, device):
    monkeypatch.setattr(saved_layouts, "DEVICES", {torch.device(device).type})


def examples(device, *shape):
    torch.manual_seed(0)
    x = torch.randn(*shape, INNER, dtype=torch.bfloat16, device=device, requires_grad=True)
    w = torch.randn(COLUMNS, INNER, dtype=torch.bfloat16, device=device, requires_grad=True)
    return x, w, torch.randint(0, COLUMNS, shape, device=device)


def loss(x, w, y):
    return torch.nn.functional.cross_entropy((x @ w.T).float().flatten(0, -2), y.flatten())


def step(fn, x, w, y):
    result = fn(x, w, y)
    results = result if isinstance(result, tuple) else (result,)
    return [r.detach() for r in results] + list(torch.autograd.grad(results[0], (x, w)))


def taken(monkeypatch):
    """Strides of the arguments of backward graphs, gathered as they are compiled."""
    found = []
    take = saved_layouts.restride_placeholders

    def watched(gm, given):
        take(gm, given)
        values = [n.meta.get("val") for n in gm.graph.find_nodes(op="placeholder")]
        found.extend(v.stride() for v in values if isinstance(v, torch.Tensor))

    monkeypatch.setattr(saved_layouts, "restride_placeholders", watched)
    return found


@pytest.mark.parametrize("shape", [(ROWS,), (2, ROWS)], ids=str)
def test_a_product_kept_for_the_backward(device, monkeypatch, shape):
    strides = taken(monkeypatch)
    args = examples(device, *shape)
    torch._dynamo.reset()
    compiled = torch.compile(loss, backend="poot", options={"strict": True})
    want = step(loss, *args)
    for _ in range(2):
        got = step(compiled, *args)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, atol=1e-3, rtol=2e-2)
            assert a.stride() == b.stride()
    assert [s for s in strides if 1008 in s]


def test_what_the_caller_sees_lies_as_eagers(device, monkeypatch):
    strides = taken(monkeypatch)

    def both(x, w, y):
        logits = x @ w.T
        return torch.nn.functional.cross_entropy(logits.float(), y), logits

    args = examples(device, ROWS)
    got = step(torch.compile(both, backend="poot", options={"strict": True}), *args)
    assert got[1].stride() == (COLUMNS, 1)
    assert not [s for s in strides if 1008 in s]


def test_hooks_that_lay_them_otherwise(device):
    args = examples(device, ROWS)
    compiled = torch.compile(loss, backend="poot", options={"strict": True})
    want = step(compiled, *args)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.clone(memory_format=torch.contiguous_format), lambda t: t
    ):
        got = step(compiled, *args)
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("dtype", "shape", "strides"),
    [
        (torch.bfloat16, (4, 1001), (1008, 1)),
        (torch.float16, (2, 4, 1001), (4032, 1008, 1)),
        (torch.bfloat16, (4, 1000), None),
        (torch.float32, (4, 1001), None),
        (torch.bfloat16, (4, 101), None),
        (torch.bfloat16, (0, 1001), None),
        (torch.bfloat16, (1001,), None),
    ],
    ids=str,
)
def test_strides(dtype, shape, strides):
    value = torch.empty(shape, dtype=dtype)
    saved_layouts.DEVICES.add("cpu")
    assert saved_layouts.rows_apart(value) == strides


def test_what_is_not_contiguous_stays():
    saved_layouts.DEVICES.add("cpu")
    assert saved_layouts.rows_apart(torch.empty(1001, 4, dtype=torch.bfloat16).T) is None


def test_products_of_odd_sizes(device):
    """Large enough for matrices with margins on a GPU: made by a kernel, given, read across, seen by the caller, with
    a bias; the numbers in the margins are garbage or cleared."""
    torch.manual_seed(0)
    rows, inner, columns = 1023, 513, 9999
    x, w, g, h, b = (
        torch.randn(*s, dtype=torch.bfloat16, device=device) / 16
        for s in ((rows, inner), (columns, inner), (rows, columns), (rows, columns + 1), (columns,))
    )

    def products(x, w, g, h, b):
        logits = x @ w.T
        made = logits * g
        biased = torch.nn.functional.linear(x.view(3, rows // 3, inner), w, b).relu()
        return logits, made.T @ x, made @ w, g.T @ x, g @ w, h[:, 1:] @ w, biased

    compiled = torch.compile(products, backend="poot", options={"strict": True})
    want = products(x, w, g, h, b)
    for _ in range(3):
        for got, expected in zip(compiled(x, w, g, h, b), want, strict=True):
            torch.testing.assert_close(got, expected, atol=2e-2, rtol=2e-2)
            assert got.stride() == expected.stride()
