"""What eager refuses is refused: the same type of exception, and the process lives."""

import pytest
import torch
import torch.nn.functional as F

from poot_torch.backend import poot

TABLE, PLACES = torch.randn(4, 3), torch.tensor([0, 9])
REFUSED = {
    "integer division": (lambda a, b: a // b, torch.tensor([1, 2]), torch.tensor([0, 1])),
    "integer remainder": (lambda a, b: a % b, torch.tensor([1, 2]), torch.tensor([1, 0])),
    "division by a number": (lambda a: a // 0, torch.tensor([1, 2], dtype=torch.int32)),
    "index": (lambda x, i: x[i] + 1, TABLE, PLACES),
    "embedding": (lambda x, i: F.embedding(i, x) * 2, TABLE, PLACES),
    "negative embedding": (lambda x, i: F.embedding(i, x) * 2, TABLE, torch.tensor([0, -1])),
    "masked scatter": (torch.masked_scatter, TABLE, TABLE > -9, torch.randn(11)),
    "masked scatter of nothing": (torch.masked_scatter, TABLE, TABLE > -9, torch.randn(0)),
    "class": (lambda x: F.one_hot(x, 5) + 1, torch.tensor([1, 5])),
    "embedding of no rows": (lambda x, i: F.embedding(i, x) * 2, TABLE[:0], PLACES),
    "elements of a scalar": (lambda x, i: x.index_select(0, i) + 1, TABLE[0, 0], PLACES),
    "no element of a scalar": (lambda x, i: x.index_select(0, i) + 1, TABLE[0, 0], PLACES[:0]),
    "mask minus": (lambda x, m: x - m, TABLE, TABLE > 0),
    "clamp outside": (lambda x: x.clamp(-(2**40), 2**40), torch.arange(4, dtype=torch.int32)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_exceptions_are_those_of_eager(name):
    fn, *args = REFUSED[name]
    with pytest.raises(Exception) as eager:
        fn(*args)
    torch._dynamo.reset()
    with pytest.raises(eager.type):
        torch.compile(lambda *a: fn(*a), backend=poot)(*args)


def test_a_compiled_function_works_after_it_raised():
    compiled = torch.compile(lambda x, i: x[i] + 1, backend=poot)
    with pytest.raises(IndexError):
        compiled(TABLE, PLACES)
    assert torch.equal(compiled(TABLE, PLACES % 4), TABLE[PLACES % 4] + 1)


def test_the_least_integer_by_minus_one():
    """Eager's division traps here; poot gives the wrapped quotient."""

    def f(a, b):
        return a // b, torch.div(a, b, rounding_mode="trunc"), torch.remainder(a, b), torch.fmod(a, b)

    for dtype in (torch.int32, torch.int64):
        torch._dynamo.reset()
        a, b = torch.tensor([torch.iinfo(dtype).min, 5], dtype=dtype), torch.tensor([-1, 2], dtype=dtype)
        floor, trunc, remainder, fmod = torch.compile(f, backend=poot)(a, b)
        assert floor.tolist() == trunc.tolist() == [torch.iinfo(dtype).min, 2]
        assert remainder.tolist() == fmod.tolist() == [0, 1]


@pytest.mark.parametrize("op", ["gather", "scatter", "scatter_add", "index_copy", "index_add"])
def test_places_outside_are_eagers_error(op):
    x, src = torch.randn(6, 5), torch.randn(6, 2)
    inside = torch.tensor([[0, 1], [4, 2], [2, 3], [1, 4], [3, 0], [0, 2]])
    rows = op.startswith("index")
    fn = {
        "gather": lambda x, i: x.gather(1, i) * 2,
        "scatter": lambda x, i: x.scatter(1, i, src),
        "scatter_add": lambda x, i: x.scatter_add(1, i, src),
        "index_copy": lambda x, i: x.index_copy(1, i, src),
        "index_add": lambda x, i: x.index_add(1, i, src),
    }[op]
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot, options={"strict": True})
    places = inside[0] if rows else inside
    torch.testing.assert_close(compiled(x, places), fn(x, places))
    for bad in (7, -1):
        outside = torch.full_like(places, bad)
        with pytest.raises(Exception) as eager:
            fn(x, outside)
        with pytest.raises(eager.type):
            compiled(x, outside)
    torch.testing.assert_close(compiled(x, places), fn(x, places))


def test_group_norm_of_strides_that_eager_refuses():
    x = torch.randn(2, 6, 4, 3, device="cpu").transpose(1, 2)
    fn = lambda x: torch.native_group_norm(x, None, None, 2, 4, 18, 2, 1e-5)[0] + 1  # noqa: E731
    compiled = torch.compile(fn, backend=poot)
    with pytest.raises(RuntimeError, match="contiguous"):
        fn(x)
    with pytest.raises(RuntimeError, match="contiguous"):
        compiled(x)
    for layout in (torch.contiguous_format, torch.channels_last):
        y = x.contiguous(memory_format=layout)
        torch.testing.assert_close(compiled(y), fn(y))
