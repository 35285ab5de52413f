"""Functions that write, alias and view, through torch.compile(backend="poot"), against eager.

    python -m qualification mutation --only write_through_view

Compared: results, arguments afterwards, which of them share memory, strides, and how far version counters moved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from qualification import sweep
from qualification.cases import Group, Suite
from qualification.function_trial import Functions, Plain
from qualification.result import Result, examine
from qualification.rules import DatabaseRule

case = Functions()


def _one() -> tuple[Any, ...]:
    return (torch.randn(6, 8),)


def _two() -> tuple[Any, ...]:
    return torch.randn(6, 8), torch.randn(6, 8)


def _same() -> tuple[Any, ...]:
    x = torch.randn(6, 8)
    return x, x


def _base_and_view() -> tuple[Any, ...]:
    x = torch.randn(6, 8)
    return x, x[2:4]


def _disjoint_views() -> tuple[Any, ...]:
    x = torch.randn(12, 8)
    return x[:6], x[6:]


def _interleaved_views() -> tuple[Any, ...]:
    x = torch.randn(6, 16)
    return x[:, ::2], x[:, 1::2]


def _channels_last() -> tuple[Any, ...]:
    return (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),)


def _transposed() -> tuple[Any, ...]:
    return (torch.randn(8, 6).t(),)


def _offset() -> tuple[Any, ...]:
    return (torch.randn(50)[2:50].view(6, 8),)


def _indexed() -> tuple[Any, ...]:
    return torch.randn(6, 8), torch.tensor([4, 0, 4]), torch.randn(3, 8)


def _bool_and_values() -> tuple[Any, ...]:
    return torch.randn(6, 8), torch.rand(6, 8) > 0.5


def _leaf() -> tuple[Any, ...]:
    return (torch.randn(6, 8, requires_grad=True),)


@case(_one)
def write_to_argument(x):
    x.add_(1)
    return x * 2


@case(_one)
def return_written_argument(x):
    return x.mul_(2)


@case(_one)
def read_before_write(x):
    y = x + 1
    x.zero_()
    return y, x.sum()


@case(_one)
def write_through_view(x):
    x[1:3].mul_(3)
    return x.sum(0)


@case(_one)
def write_through_view_of_view(x):
    v = x.t()[2:5]
    v[:, 1].fill_(7)
    return v


@case(_one)
def write_through_select_and_reshape(x):
    x.view(-1)[5:9].copy_(torch.arange(4.0))
    return x.view(8, 6)


@case(_one)
def write_with_step(x):
    x[::2, 1::3] -= 5
    return x.abs()


@case(_one)
def return_view(x):
    return x[1:], x.t(), x.view(-1)


@case(_one)
def return_view_of_written(x):
    x.sin_()
    return x[2:4], x


@case(_one)
def outputs_alias_each_other(x):
    y = x * 2
    return y, y[1], y.view(-1)


@case(_one)
def output_twice(x):
    y = x + 1
    return y, y


@case(_one)
def return_argument(x):
    return x, x + 1


@case(_one)
def detached_output(x):
    return x.detach(), x.sin()


@case(_one)
def write_strided_window(x):
    x.as_strided((4,), (9,), 1).add_(10)
    return x


@case(_one)
def read_overlapping_window(x):
    return x.as_strided((5, 3), (4, 2), 0) * 2


@case(_one)
def write_diagonal(x):
    x[:, :6].diagonal().zero_()
    return x


@case(_one)
def write_expanded_scalar(x):
    s = torch.zeros(())
    e = s.expand(4)
    e[3] = 5
    return s + x.sum() * 0


@case(_one)
def repeated_updates(x):
    for i in range(4):
        x[i] += x[i + 1]
    return x


@case(_one)
def copy_then_update_source(x):
    y = torch.empty_like(x)
    y[:] = x[:]
    x += 1
    return y, x


@case(_one)
def swap_halves(x):
    a, b = x[:3].clone(), x[3:].clone()
    x[:3] = b
    x[3:] = a
    return x


@case(_one)
def shift_in_place(x):
    x[1:] = x[:-1].clone()
    return x


@case(_one)
def out_argument(x):
    y = torch.empty(6, 8)
    torch.add(x, 1, out=y)
    return y


@case(_one)
def update_under_data(x):
    x.data.mul_(2)
    return x + 1


@case(_one)
def change_metadata(x):
    x.t_()
    return x + 1


@case(_one)
def squeeze_in_place(x):
    x.unsqueeze_(0)
    return x * 2


@case(_one)
def resize_result(x):
    y = x + 1
    y.resize_(4, 12)
    return y


@case(_two)
def write_both(x, y):
    x.add_(y)
    y.mul_(x)
    return x - y


@case(_two)
def set_data(x, y):
    x.data = y
    return x + 1


@case(_two)
def swap_arguments(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x + 0, y + 0


@case(_two)
def write_one_read_other(x, y):
    x.copy_(y.t().reshape(6, 8))
    return (x * y).sum()


@case(_same)
def same_argument_twice(x, y):
    x.add_(1)
    return y * 2


@case(_base_and_view)
def base_written_view_read(x, y):
    x.mul_(2)
    return y + 1


@case(_base_and_view)
def view_written_base_read(x, y):
    y.zero_()
    return x.sum(1)


@case(_disjoint_views)
def disjoint_views_of_one_base(x, y):
    x.add_(y)
    return y * 3


@case(_interleaved_views)
def interleaved_views_of_one_base(x, y):
    x.mul_(y)
    y.add_(1)
    return x + y


@case(_channels_last)
def channels_last_in_and_out(x):
    x.mul_(2)
    return x + 1, x.relu_()


@case(_transposed)
def transposed_argument(x):
    x.add_(1)
    return x.sin(), x


@case(_offset)
def argument_with_offset(x):
    x[0] = 0
    return x * 2


@case(_indexed)
def write_by_index(x, i, v):
    x[i] = v.sum() * torch.ones(3, 8)
    return x


@case(_indexed)
def accumulate_by_index(x, i, v):
    x.index_add_(0, i, v)
    return x


@case(_indexed)
def scatter_rows(x, i, v):
    x.scatter_(0, i[:, None].expand(3, 8), v.sum(0).expand(3, 8))
    return x


@case(_indexed)
def put_with_accumulate(x, i, v):
    x.index_put_((i,), v, accumulate=True)
    return x * 2


@case(_bool_and_values)
def masked_fill_in_place(x, m):
    x.masked_fill_(m, -1)
    return x


@case(_bool_and_values)
def masked_write(x, m):
    x[m] = 3
    return x


@case(_leaf)
def write_under_no_grad(x):
    with torch.no_grad():
        x.mul_(2)
    return x * 3


@case(_leaf)
def write_to_intermediate(x):
    y = x * 2
    y.add_(x)
    y[0].zero_()
    return y


@case(_leaf)
def view_output_of_leaf(x):
    return x[1:3], x.detach()


def runs(group: Group, start: int, against: str) -> Iterator[tuple[int, Callable[[], Result]]]:
    if start == 0:
        yield 0, functools.partial(examine, group.case(0), case.trial(group), DatabaseRule(Plain()), against)


SUITE = Suite("mutation", __doc__, case.scope, runs, case.reproducer)


def main(argv: list[str] | None = None) -> int:
    return sweep.main(SUITE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
