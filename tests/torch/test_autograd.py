"""What autograd does around compiled graphs: retained graphs, interleaved steps, checkpoints, autocast, hooks."""

import copy

import torch
import torch.nn.functional as F
from three_way import copied
from torch import nn
from torch.utils.checkpoint import checkpoint

from poot_torch.backend import poot

STRICT = {"strict": True}


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def pair(fn, **options):
    """(eager, compiled) of a function over one of two equal models."""
    torch._dynamo.reset()
    ours, theirs = model(), model()
    compiled = torch.compile(lambda x: fn(ours, x), backend=poot, options=options or STRICT)
    return (theirs, lambda x: fn(theirs, x)), (ours, compiled)


def close(ours, theirs):
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, msg=name)


def test_retained_graph():
    (theirs, eager), (ours, compiled) = pair(lambda m, x: m(x).square().sum())
    x = torch.randn(5, 8)
    for fn in (eager, compiled):
        loss = fn(x)
        loss.backward(retain_graph=True)
        loss.backward()
    close(ours, theirs)


def test_two_forwards_before_one_backward():
    (theirs, eager), (ours, compiled) = pair(lambda m, x: m(x).square().sum())
    a, b = torch.randn(5, 8), torch.randn(5, 8)
    for fn in (eager, compiled):
        first, second = fn(a), fn(b)
        (first + 2 * second).backward()
    close(ours, theirs)


def test_backwards_in_the_other_order():
    (theirs, eager), (ours, compiled) = pair(lambda m, x: m(x).square().sum())
    a, b = torch.randn(5, 8), torch.randn(5, 8)
    for fn in (eager, compiled):
        first, second = fn(a), fn(b)
        second.backward()
        first.backward()
    close(ours, theirs)


def test_gradients_accumulate():
    (theirs, eager), (ours, compiled) = pair(lambda m, x: m(x).square().mean())
    for fn in (eager, compiled):
        torch.manual_seed(3)
        for _ in range(3):
            fn(torch.randn(5, 8)).backward()
    close(ours, theirs)


def test_activation_checkpointing():
    def fn(m, x):
        hidden = checkpoint(m[:3], x, use_reentrant=False)
        return m[3](hidden).square().sum()

    (theirs, eager), (ours, compiled) = pair(fn)
    x = torch.randn(5, 8)
    for f in (eager, compiled):
        f(x).backward()
    close(ours, theirs)


def test_checkpointed_dropout_draws_the_same_numbers_again():
    def fn(m, x):
        return checkpoint(lambda t: F.dropout(m(t), 0.5), x, use_reentrant=False).square().sum()

    (theirs, eager), (ours, compiled) = pair(fn, strict=False)
    x = torch.randn(5, 8)
    for f in (eager, compiled):
        torch.manual_seed(11)
        f(x).backward()
    close(ours, theirs)


def test_autocast():
    def fn(m, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m(x).float().square().sum()

    (theirs, eager), (ours, compiled) = pair(fn)
    x = torch.randn(5, 8)
    for f in (eager, compiled):
        f(x).backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=2e-2, atol=2e-2, msg=name)


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() < ctx.limit, grad, grad * 0.1), None


def test_custom_function():
    (theirs, eager), (ours, compiled) = pair(lambda m, x: Clipped.apply(m(x), 0.3).sum())
    x = torch.randn(5, 8)
    for f in (eager, compiled):
        f(x).backward()
    close(ours, theirs)


def test_an_argument_and_its_view_both_want_gradients():
    def fn(x):
        y = x[1:]
        return (y * 2).sum() + x.square().sum()

    x = torch.randn(5, requires_grad=True)
    other = copied(x)
    torch._dynamo.reset()
    fn(x).backward()
    torch.compile(fn, backend=poot, options=STRICT)(other).backward()
    torch.testing.assert_close(other.grad, x.grad)


def test_an_argument_written_before_its_gradient():
    def fn(x, buffer):
        buffer.mul_(2)
        return (x * buffer).sum()

    x, buffer = torch.randn(5, requires_grad=True), torch.randn(5)
    mine, mine_buffer = copied((x, buffer))
    torch._dynamo.reset()
    fn(x, buffer).backward()
    torch.compile(fn, backend=poot, options=STRICT)(mine, mine_buffer).backward()
    torch.testing.assert_close(mine.grad, x.grad)
    torch.testing.assert_close(mine_buffer, buffer)


def test_tied_and_frozen_weights():
    torch.manual_seed(0)
    table = nn.Embedding(12, 8)
    head = nn.Linear(8, 12, bias=False)
    head.weight = table.weight
    theirs = nn.ModuleList([table, head])
    ours = copy.deepcopy(theirs)
    ids = torch.randint(0, 12, (3, 5))

    def fn(m, ids):
        return F.cross_entropy(m[1](m[0](ids)).flatten(0, 1), ids.flatten())

    torch._dynamo.reset()
    fn(theirs, ids).backward()
    torch.compile(lambda i: fn(ours, i), backend=poot, options=STRICT)(ids).backward()
    close(ours, theirs)


def test_a_second_derivative_is_refused_or_right():
    x = torch.randn(4, requires_grad=True)
    torch._dynamo.reset()
    y = torch.compile(lambda x: (x**3).sum(), backend=poot)(x)
    try:
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    except RuntimeError as e:
        assert "double backward" in str(e) or "does not require grad" in str(e)
    else:
        torch.testing.assert_close(second, 6 * x.detach())


def test_gradient_of_layer_norm_is_contiguous_under_a_transposed_one():
    torch._dynamo.reset()
    x = torch.randn(3, 2, 4, requires_grad=True)

    def fn(x):
        return F.layer_norm(x, (4,)).transpose(0, 1)

    compiled = torch.compile(fn, backend=poot, options=STRICT)
    slope = torch.randn(2, 3, 4)
    (want,) = torch.autograd.grad(fn(x), x, slope)
    (got,) = torch.autograd.grad(compiled(x), x, slope)
    torch.testing.assert_close(got, want)
    assert got.stride() == want.stride() == (8, 4, 1)
