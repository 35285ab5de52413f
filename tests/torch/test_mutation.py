"""Arguments written in place, views of them, arguments that overlap, and results that share memory: as in eager."""

import copy

import pytest
import torch
from three_way import check, copied
from torch import nn
from torch._dynamo.utils import counters

from poot_torch.backend import poot

STRICT = {"strict": True}


def both(fn, *args, **options):
    """(eager's results and arguments, poot's), on copies."""
    ours, theirs = copied(args), copied(args)
    torch._dynamo.reset()
    return (fn(*theirs), theirs), (torch.compile(fn, backend=poot, options=options or None)(*ours), ours)


def same(pair):
    (want, want_args), (got, got_args) = pair
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(got_args, want_args)


@pytest.fixture(autouse=True)
def no_grad_by_default():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def test_views_of_arguments_are_written():
    def fn(x):
        x[1:, ::2].mul_(3)
        x.t()[0].zero_()
        x.view(-1)[-3:].add_(1)
        x.diagonal().fill_(7)
        return x.sum(0)

    check(fn, torch.randn(4, 6))


def test_an_argument_is_written_twice_and_read_between():
    def fn(x, y):
        x.add_(1)
        a = x * 2
        x.mul_(y)
        b = x.clone()
        x.copy_(y)
        return a, b

    check(fn, torch.randn(3, 4), torch.randn(3, 4))


def test_writes_through_strided_arguments():
    def fn(x, y):
        x.mul_(2)
        y.add_(x)
        return x + y

    check(fn, torch.randn(6, 4).t(), torch.randn(8, 6)[::2])


def test_a_broadcast_or_cast_write():
    def fn(x, half):
        x.copy_(half[0])
        half.add_(x)
        return x

    check(fn, torch.randn(3, 4), torch.randn(3, 4, dtype=torch.bfloat16), judge=False)


def test_views_of_one_base_as_arguments():
    base = torch.randn(10)

    def fn(a, b):
        a.add_(1)
        return a.sum() + b.sum()

    def views(of):
        return of[:6], of[4:]

    ours, theirs = base.clone(), base.clone()
    torch._dynamo.reset()
    want = fn(*views(theirs))
    torch.testing.assert_close(torch.compile(fn, backend=poot)(*views(ours)), want)
    torch.testing.assert_close(ours, theirs)


def test_the_same_tensor_twice():
    def fn(a, b):
        a.mul_(2)
        return a + b

    x, y = torch.ones(5), torch.ones(5)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(fn, backend=poot)(x, x), fn(y, y))
    torch.testing.assert_close(x, y)


def test_disjoint_when_compiled_and_overlapping_later():
    """Nothing guards against this, so it must be refused or right, never silently wrong."""

    def fn(a, b):
        a.add_(1)
        return b * 2

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot)
    compiled(torch.zeros(8), torch.zeros(8))
    base, other = torch.zeros(12), torch.zeros(12)
    want = fn(other[:8], other[4:])
    try:
        got = compiled(base[:8], base[4:])
    except RuntimeError as e:
        assert "overlap" in str(e)
    else:
        torch.testing.assert_close(got, want)


def test_results_that_are_arguments_or_views_of_them():
    check(lambda x: (x, x.t(), x[1:], x + 1), torch.randn(3, 4))
    check(lambda x: (x.add_(1), x.view(-1), x * 2), torch.randn(3, 4))


def test_results_that_share_memory():
    def fn(x):
        y = x * 2
        return y, y.t(), y[0], y.view(-1), y.unsafe_chunk(2)

    check(fn, torch.randn(4, 4))


def test_a_result_written_after_it_was_made():
    def fn(x):
        y = x * 2
        z = y.view(-1)
        y[0].fill_(3)
        return y, z, x.sum()

    check(fn, torch.randn(4, 4))


def test_unsqueezed_and_squeezed_in_place():
    def fn(x):
        y = x + 1
        y.unsqueeze_(0)
        y.transpose_(0, 1)
        return y

    check(fn, torch.randn(3, 4))


def written_once(x, y):
    x.add_(1)
    return x * y


def written_often(x, y):
    x.add_(1)
    y.mul_(x)
    x[1:].mul_(2)
    x.copy_(y)
    return x * y


def given_other_data(x, y):
    x.data = y
    return x + 1


def written_through_data(x, y):
    x.data.mul_(y)
    return x + 1


@pytest.mark.parametrize("fn", [written_once, written_often, given_other_data, written_through_data])
def test_version_counters_are_those_of_eager(fn):
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot)
    for make in (torch.randn, torch.randn, lambda n: torch.randn(n + 1)[1:]):
        args = (make(4), make(4))
        theirs, ours = copied(args), copied(args)
        torch.testing.assert_close(compiled(*ours), fn(*theirs))
        assert [t._version for t in ours] == [t._version for t in theirs]


def test_version_counters_of_a_base_and_its_view():
    def fn(x, v):
        x.add_(1)
        v.mul_(2)
        return x + 1

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot)
    theirs, ours = torch.ones(6), torch.ones(6)
    torch.testing.assert_close(compiled(ours, ours[2:]), fn(theirs, theirs[2:]))
    assert ours._version == theirs._version == 2


def test_channels_last_in_and_out():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    check(lambda x: (x * 2, x.mean(1, keepdim=True) + x, x.contiguous() + 1), x)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        self.calls += 1
        return x * self.weight + self.calls


def test_buffers_and_parameters_changed_between_calls():
    torch._dynamo.reset()
    counters.clear()
    model = Counter()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend=poot, options=STRICT)
    x = torch.randn(4)
    for change in (
        lambda m: m.weight.add_(1),
        lambda m: m.weight.data.mul_(2),
        lambda m: setattr(m.weight, "data", m.weight.data.flip(0).clone()),
        lambda m: m.load_state_dict({"weight": torch.arange(4.0), "calls": torch.tensor(7)}),
        lambda m: m.weight.data.numpy().__setitem__(0, 9.0),
    ):
        torch.testing.assert_close(compiled(x), eager(x))
        change(model), change(eager)
    torch.testing.assert_close(compiled(x), eager(x))
    assert torch.equal(model.calls, eager.calls)
    assert counters["poot"]["graphs:inference"] <= 2


def test_tensor_subclasses_are_right_or_refused():
    class Tagged(torch.Tensor):
        pass

    x = torch.randn(4).as_subclass(Tagged)
    torch._dynamo.reset()
    got = torch.compile(lambda t: t * 2 + 1, backend=poot)(x)
    torch.testing.assert_close(got.as_subclass(torch.Tensor), x.as_subclass(torch.Tensor) * 2 + 1)


def test_set_and_resize_leave_eagers_answer():
    def fn(x, y):
        z = x + 1
        z.set_(y)
        return z * 2

    same(both(fn, torch.randn(4), torch.randn(3)))
