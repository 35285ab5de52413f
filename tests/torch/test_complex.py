"""Complex tensors run as pairs of real ones: strictly, with eager's values, layouts and aliases."""

import pytest
import torch
from three_way import check, copied

import poot_torch
from poot_torch.backend import poot

UNARY = "neg abs angle sgn conj_physical exp expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin"
UNARY += " acos atan sinh cosh tanh asinh acosh atanh sigmoid square reciprocal isnan isinf isfinite logical_not"


def pair(dtype=torch.complex64):
    torch.manual_seed(5)
    return torch.randn(4, 6, dtype=dtype), torch.randn(4, 6, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@torch.no_grad()
def test_functions(dtype):
    names = UNARY.split()
    got = check(lambda x: [getattr(torch, n)(x * 1.5) for n in names], pair(dtype)[0], judge=False)
    assert len(got) == len(names)


@torch.no_grad()
def test_sums_of_exponentials_and_powers_of_two():
    def fn(x, y):
        return x.logsumexp(0), y.logsumexp((0, 1), keepdim=True), (x * 1000).logsumexp(1), torch.ldexp(x, y)

    check(fn, *pair(), peer=False)


@pytest.mark.parametrize("name", ["atanh", "atan"])
@torch.no_grad()
def test_inverse_tangents_near_their_poles(name):
    parts = torch.tensor([0.0, -0.0, 1e-8, -1e-8, 0.5, -0.5, 0.9999, -0.9999, 1.0001, -1.0001, 3.0, -3.0, 1e25, -1e25])
    x = torch.complex(*torch.meshgrid(parts, parts, indexing="ij"))
    f = getattr(torch, name)
    got, want = torch.compile(f, backend=poot, options={"strict": True})(x), f(x.to(torch.complex128))
    assert ((got - want).abs() <= 3e-7 * want.abs()).all()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@torch.no_grad()
def test_arithmetic(dtype):
    def fn(x, y):
        return x * y, x / y, x + 2j, 3 - y, x**2, x**y, (x == y), x.real * y.imag, torch.addcmul(x, y, y, value=0.5j)

    check(fn, *pair(dtype), judge=False)


@torch.no_grad()
def test_movement_and_reductions():
    def fn(x, y):
        moved = torch.cat([x.t(), y.t().flip(0)], 1)[1:, ::2]
        return (
            moved,
            moved.sum(0),
            moved.mean(),
            moved.cumsum(1),
            x.prod(1),
            x.var(0),
            torch.linalg.vector_norm(y, dim=1),
        )

    check(fn, *pair(), judge=False)


@torch.no_grad()
def test_mixed_with_real():
    def fn(x, r):
        return (
            x * r,
            torch.where(r > 0, x, r),
            torch.complex(r, r + 1),
            torch.view_as_real(x) + 1,
            x.to(torch.complex128),
            torch.nn.functional.silu(x),
        )

    check(fn, pair()[0], torch.randn(4, 6), judge=False)


@torch.no_grad()
def test_library_between_kernels():
    check(lambda x: torch.fft.fft(x * 2).conj() + 1, pair()[0], judge=False)
    check(lambda x, y: (x + 1) @ y.t(), *pair(), judge=False)


@torch.no_grad()
def test_written_argument():
    x, y = pair()
    want = copied(x)
    torch.compile(lambda x, y: x.mul_(y), backend=poot, options={"strict": True})(x, y)
    torch.testing.assert_close(x, want.mul_(y))


@torch.no_grad()
def test_strided_and_conjugate_arguments():
    x, y = pair()
    check(lambda a, b: (a * b, a.t() + 1), x.t()[::2], y.t()[::2], judge=False)
    got = torch.compile(lambda a: a * 2, backend=poot, options={"strict": True})(x.conj())
    torch.testing.assert_close(got, x.conj() * 2)


def test_gradient():
    x, y = (t.requires_grad_() for t in pair())
    torch.compile(lambda x, y: (x * y).abs().sum(), backend=poot, options={"strict": True})(x, y).backward()
    got, x.grad = x.grad, None
    (x * y).abs().sum().backward()
    torch.testing.assert_close(got, x.grad)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@torch.no_grad()
def test_products_of_vectors(dtype):
    a, x, c = (torch.randn(s, dtype=dtype) for s in ((40, 30), (30,), (40,)))

    def fn(a, x, c):
        dots = torch.dot(x, x), torch.vdot(x, a[0]), torch.linalg.vecdot(a, x), torch.vdot(x.conj(), x)
        return *dots, a @ x, torch.addmv(c, a, x, alpha=2 + 1j, beta=0.5j), c.addmv(a, x, beta=0)

    check(fn, a, x, c, judge=False, peer=False)
    assert poot_torch.last_report().totals()["classes"]["library"] == 0


@torch.no_grad()
def test_products():
    x = torch.polar(torch.rand(3, 150) * 0.2 + 0.9, torch.rand(3, 150) * 6)
    check(lambda x: (x.prod(1), x[:, :0].prod(1), x.cumprod(1), x.cumprod(0), x[0, 0].cumprod(0)), x, judge=False)


@pytest.mark.parametrize("made", [False, True])
@torch.no_grad()
def test_results_that_share_memory(made):
    """Of an argument and of a computed tensor."""

    def fn(x):
        x = x * 2 if made else x
        return [*torch.unsafe_split(x, 2, -1), *torch.unsafe_chunk(x, 2), *torch.unsafe_split_with_sizes(x, [1, 3], 0)]

    check(fn, pair()[0], judge=False)
    check(lambda x: (x * 2 if made else x).split(2, dim=-1), pair()[0], judge=False)
    check(lambda x: (x * 2 if made else x).t().unbind(-1), pair()[0], judge=False)


@torch.no_grad()
def test_complex_of_halves():
    """Computed in f32 and rounded once, as eager."""
    x, y = (t.to(torch.complex32) for t in pair())
    check(lambda x, y: (x * y, x + y, (x - y).t(), x.real * 2, x.to(torch.complex64) * 2), x, y, judge=False)
    check(lambda x: (x * 2).chalf(), pair()[0], judge=False)


@torch.no_grad()
def test_pseudo_inverse():
    x = pair()[0]
    check(
        lambda x: (torch.pinverse(x), torch.linalg.pinv(x @ x.mH, hermitian=True, rtol=1e-6)),
        x,
        judge=False,
        peer=False,
    )
