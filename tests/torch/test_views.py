"""Views, movement, creation and indexing."""

import pytest
import torch
from three_way import check

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("inference")


def test_views_of_a_computed_value():
    def fn(x):
        y = x * 2
        return {
            "view": y.view(6, 20) + 1,
            "reshape": y.transpose(0, 1).reshape(-1) + 1,
            "permute": y.permute(2, 0, 1) + 1,
            "expand": y[:, :1].expand(4, 5, 6) + 1,
            "squeeze": y.unsqueeze(1).squeeze(1) + 1,
            "select": y[1] + y[:, -1].sum(),
            "slice": y[1:, ::2, -4:] + 1,
            "split": torch.cat([p + i for i, p in enumerate(y.split(2, dim=1))], dim=1),
            "chunk": sum(y.chunk(3, dim=2)),
            "unbind": torch.stack(y.unbind(0), dim=-1),
            "flip": y.flip(0, 2) + 1,
            "movedim": y.movedim(0, -1) + 1,
            "diagonal": y.diagonal(1, 1, 2) + 1,
            "unflatten": torch.unflatten(y, 2, (2, 3)) + 1,
        }

    check(fn, torch.randn(4, 5, 6))


def test_layouts_of_results():
    def fn(x):
        y = x + 1
        return y.transpose(0, 1), y.t().contiguous(), y.clone(), (x * 2)[:, 1:], y.t() * 3

    check(fn, torch.randn(5, 7))


def test_results_that_are_arguments_or_share():
    def fn(x, w):
        y = x + w
        return x, y, y.view(-1), w.clone(), x.t()

    check(fn, torch.randn(4, 4), torch.randn(4, 4))


def test_movement():
    def fn(x, y):
        return {
            "cat": torch.cat([x, y, x + 1], dim=1),
            "cat_mixed": torch.cat([x, y.to(torch.bfloat16)], dim=0),
            "stack": torch.stack([x, y], dim=1),
            "pad": F.pad(x, (1, 2, 0, 3), value=-1.0),
            "pad_cut": F.pad(x, (-1, 2)),
            "repeat": x.repeat(2, 1, 3),
            "roll": x.roll((1, -2), (0, 1)),
            "interleave": torch.repeat_interleave(x, 2, dim=1),
            "tril": x.tril(-1) + x.triu(1),
            "tile": x.tile(2),
        }

    check(fn, torch.randn(5, 6), torch.randn(5, 6))


def test_creation():
    def fn(x):
        at = {"device": x.device}
        return {
            "zeros": torch.zeros(3, 4, **at) + x,
            "ones_like": torch.ones_like(x) * x,
            "full": torch.full((4,), 0.1, **at) + x,
            "arange": torch.arange(2, 14, 3, **at) * x,
            "arange_float": torch.arange(0.0, 4.0, **at) * x,
            "arange_fraction": torch.arange(0.0, 2.0, 0.5, **at) * x,
            "linspace": torch.linspace(0, 1, 4, **at) * x,
            "constant": torch.tensor([1.0, 2.0, 3.0, 4.0], **at) * x,
            "scalar": torch.tensor(2.5, **at) * x,
            "eye": torch.eye(4, **at) * x,
        }

    check(lambda x: fn(x[:1]), torch.randn(3, 4))


def test_reading_through_indices():
    def fn(x, i, j, rows):
        return {
            "embedding": F.embedding(rows, x),
            "select": x.index_select(1, i),
            "gather": x.gather(1, j),
            "one": x[i],
            "one_inner": x[:, i],
            "two": x[i, j[0, :3]],
            "negative": x[-i - 1],
            "outer": x[i[:, None], i[None, :]],
            "take_dim": torch.take_along_dim(x, j, 1),
        }

    x, i = torch.randn(5, 6), torch.tensor([0, 3, 2])
    check(fn, x, i, torch.randint(0, 6, (5, 4)), torch.tensor([[1, 0], [4, 2]]))


def test_writing_through_indices():
    def fn(x, i, src):
        a = x.clone()
        a[i] = src
        b = x.clone()
        b[:, 1:3] = 7
        b[0] = 1
        c = x.index_copy(0, i, src)
        d = x.clone()
        d[i, i] = src[:, 0]
        e = torch.slice_scatter(x, src[:, :1], 1, 2, 3) if x.shape[0] == 3 else x + 1
        return a, b, c, d, e, x.index_fill(0, i, 0.5)

    check(fn, torch.randn(5, 6), torch.tensor([0, 3, 2]), torch.randn(3, 6))


def test_out_of_range_index_raises():
    from poot_torch.backend import poot

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, i: x.index_select(0, i) + 1, backend=poot, options={"strict": True})
    x = torch.randn(4, 5)
    compiled(x, torch.tensor([0, 3]))
    with pytest.raises(Exception, match="(?i)index"):
        compiled(x, torch.tensor([0, 4]))


def test_mutated_arguments():
    def fn(x, cache, i):
        cache.index_copy_(0, i, x * 2)
        x.add_(1)
        return cache.sum(0)

    check(fn, torch.randn(2, 5), torch.randn(6, 5), torch.tensor([1, 4]))


def test_mutation_after_a_copy_of_its_source():
    def fn(dst, src):
        dst[:] = src[:]
        src += 1
        return dst + src

    check(fn, torch.randn(4, 3), torch.randn(4, 3))


def test_mutated_view():
    def fn(x):
        x[1:, ::2].mul_(3)
        x.t()[0].zero_()
        return x.sum()

    check(fn, torch.randn(4, 6, generator=torch.Generator().manual_seed(0)))


def test_kept_result_is_not_overwritten():
    from poot_torch.backend import poot

    torch._dynamo.reset()
    f = torch.compile(lambda x: torch.tanh(x) + 1, backend=poot, options={"strict": True})
    first = f(torch.ones(64))
    kept = first.clone()
    f(torch.zeros(64))
    assert torch.equal(first, kept)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_transposed_copies(dtype):
    def fn(x, y, z):
        added = x.logical_xor(y.t()) if dtype is torch.bool else x + y.t()
        return x.t().contiguous(), added, z.permute(0, 2, 1, 3).contiguous(), z.permute(3, 1, 0, 2).contiguous()

    shapes = [(70, 129), (129, 70), (3, 20, 17, 33)]
    args = [torch.randint(0, 9, s, generator=torch.Generator().manual_seed(0)).to(dtype) for s in shapes]
    check(fn, *args, peer=False, judge=False)
    check(fn, *(a.float() for a in args), dynamic=True, peer=False)


def test_memory_around_an_argument():
    """Read and written past what the argument shows of it."""
    x = torch.arange(40.0)[10:16]
    check(lambda x: (x.as_strided((3, 2), (4, 9), 2) * 2, x.as_strided((2, 2), (1, 2)) + 1, x + 1), x, judge=False)
    check(lambda x: torch.as_strided_copy(x[1:], (2, 3), (3, 1), 20) + x[:2, None], x, judge=False)
    check(lambda x: x.as_strided((6,), (1,), 0) + x, x, judge=False)
    check(
        lambda x, y: torch.as_strided_scatter(x.t(), y, (2, 2), (3, 1), 1) * 2,
        x.view(2, 3),
        torch.randn(2, 2),
        judge=False,
    )
    check(lambda x: x.as_strided((2, 3), (3, 1), 4) * 1j, torch.randn(12, dtype=torch.complex64)[3:5], judge=False)


def test_memory_beyond_the_storage():
    """Eager's error."""
    compiled = torch.compile(lambda x: x.as_strided((4,), (1,), 4) * 2, backend="poot")
    compiled(torch.arange(10.0)[2:5])
    with pytest.raises(RuntimeError, match="out of bounds"):
        compiled(torch.arange(7.0)[2:5])
