"""Saved tensors that AOTAutograd donates to the backward: it writes over them, and nobody sees it."""

from unittest import mock

import pytest
import torch
from three_way import gradients

import poot_torch.backend
from poot_torch.backend import poot


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_(True)


def compiled(fn):
    torch._dynamo.reset()
    return torch.compile(fn, backend=poot, dynamic=False, options={"strict": True})


@pytest.fixture
def signatures():
    """(kind, donated positions) of every graph imported during the test."""
    seen = []
    real = poot_torch.backend.import_graph

    def spy(gm, kind, *rest, **keywords):
        imported = real(gm, kind, *rest, **keywords)
        seen.append((kind, list(imported.signature.donated)))
        return imported

    with mock.patch.object(poot_torch.backend, "import_graph", spy):
        yield seen


def mlp(x, w, v):
    h = torch.tanh(x @ w / 16)
    return torch.sigmoid(torch.exp(h) @ v / 16).sum()


def test_intermediates_are_donated_and_gradients_right(signatures):
    torch._dynamo.reset()
    gradients(mlp, random(64, 128), random(128, 256, seed=1), random(256, 32, seed=2))
    donated = dict(signatures)
    assert donated["forward"] == [] and donated["backward"]


def test_repeated_steps_give_equal_gradients():
    fn = compiled(mlp)
    args = random(64, 128), random(128, 256, seed=1), random(256, 32, seed=2)
    first = torch.autograd.grad(fn(*args), args)
    for _ in range(3):
        for a, b in zip(first, torch.autograd.grad(fn(*args), args), strict=True):
            assert torch.equal(a, b)


def test_results_and_arguments_are_not_donated(signatures):
    """h is a result and x an argument; both are saved for the backward and must survive it."""

    def fn(x):
        h = torch.exp(x)
        return h, (h * torch.sin(h) * x).sum()

    x = random(100)
    h, loss = compiled(fn)(x)
    before_h, before_x = h.detach().clone(), x.detach().clone()
    loss.backward()
    assert torch.equal(h, before_h) and torch.equal(x, before_x)
    y = before_x.double().requires_grad_(True)
    fn(y)[1].backward()
    torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-5, atol=1e-5)


def test_nothing_is_donated_beside_ordered_effects(signatures):
    """Their tokens shift the positions that AOTAutograd tells: an argument would be among them."""

    def fn(x, w, y):
        return torch.nn.functional.instance_norm(x, weight=w, bias=w), torch.linalg.inv(y).square()

    args = random(5, 5, 5), random(5, seed=1), random(4, 4, seed=2)
    before = [a.detach().clone() for a in args]
    out, inverse = compiled(fn)(*args)
    inverse_before = inverse.detach().clone()
    (out.sum() + inverse.sum()).backward()
    assert all(torch.equal(a.detach(), b) for a, b in zip(args, before, strict=True))
    assert torch.equal(inverse.detach(), inverse_before)
    assert dict(signatures)["backward"] == []


def test_views_of_one_base_are_not_donated(signatures):
    """Two saved tensors that show one another's memory: neither may be overwritten while the other is read."""

    def fn(x, w):
        h = torch.exp(x)
        return ((h.t() @ w).tanh() * (h[:, :8].t() @ w[:, :8].t()).sin().sum()).sum()

    gradients(fn, random(8, 8), random(8, 8, seed=1))


def test_retain_graph_from_the_first_backward_works(signatures):
    fn = compiled(mlp)
    args = random(8, 16), random(16, 32, seed=1), random(32, 4, seed=2)
    loss = fn(*args)
    first = torch.autograd.grad(loss, args, retain_graph=True)
    second = torch.autograd.grad(loss, args)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    assert dict(signatures)["backward"] == []


def test_retain_graph_after_donation_is_refused():
    fn = compiled(mlp)
    args = random(8, 16), random(16, 32, seed=1), random(32, 4, seed=2)
    torch.autograd.grad(fn(*args), args)
    with pytest.raises(RuntimeError, match="donated"):
        torch.autograd.grad(fn(*args), args, retain_graph=True)


def test_donation_turned_off(signatures):
    with torch._functorch.config.patch(donated_buffer=False):
        fn = compiled(mlp)
        args = random(8, 16), random(16, 32, seed=1), random(32, 4, seed=2)
        loss = fn(*args)
        first = torch.autograd.grad(loss, args, retain_graph=True)
        second = torch.autograd.grad(loss, args, retain_graph=True)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    assert dict(signatures)["backward"] == []


def test_donated_arguments_of_other_strides_are_copied(signatures):
    """As hooks on saved tensors may hand them back."""
    boxed = {}
    make = poot_torch.backend._compile

    def record(*args, kind, **kwargs):
        boxed[kind] = make(*args, kind=kind, **kwargs)
        return boxed[kind]

    args = random(8, 16), random(16, 32, seed=1), random(32, 4, seed=2)
    with mock.patch.object(poot_torch.backend, "_compile", record):
        torch.autograd.grad(compiled(mlp)(*args), args)
    with torch.no_grad():
        _, *saved = boxed["forward"]([a.detach() for a in args])
        want = boxed["backward"]([t.clone() for t in saved] + [torch.ones(())])
        turned = {i: saved[i].t().contiguous().t() for i in dict(signatures)["backward"] if saved[i].dim() == 2}
        before = {i: t.clone() for i, t in turned.items()}
        got = boxed["backward"]([turned.get(i, t) for i, t in enumerate(saved)] + [torch.ones(())])
    assert turned and all(torch.equal(turned[i], before[i]) for i in turned)
    for g, w in zip(got, want, strict=True):
        assert torch.equal(g, w)
