"""Sums along rows are eager's to the bit on a CPU: sum, mean, and in training softmax and its kin."""

import pytest
import torch
from inputs import random

aten = torch.ops.aten
LENGTHS = [*range(1, 71), *range(127, 131), 511, 512, 545, 1000, 4095, 4096, 9000, 50257, 70000]


@pytest.fixture(autouse=True)
def two_threads(device):
    """With one, eager's compiler joins products and sums in the gradient of softmax."""
    if device != "cpu":
        pytest.skip("a GPU's kernels add in another order")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


pytestmark = [
    pytest.mark.usefixtures("inference"),
    pytest.mark.skipif(
        torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="eager's vectors are others here"
    ),
]


def rows(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return random(7 if n < 5000 else 3, n, dtype=dtype)


def differing(fn, made: dict[int, tuple[torch.Tensor, ...]], **options) -> list[int]:
    """Lengths at which the bits of fn's results differ; all are of one graph."""

    def of_all(operands):
        return [fn(*some) for some in operands]

    torch._dynamo.reset()
    results = torch.compile(of_all, backend="poot", dynamic=False)(list(made.values()))
    expected = of_all(list(made.values()))
    pairs = zip(made, results, expected, strict=True)
    return [n for n, a, b in pairs if not all(torch.equal(x, y) for x, y in zip(a, b, strict=True))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums(dtype):
    def fn(x):
        return x.sum(-1), x.mean(-1), (x * x).sum(-1, keepdim=True), x - x.amax(-1, keepdim=True)

    assert differing(fn, {n: (rows(n, dtype),) for n in LENGTHS}) == []


def test_sums_of_everything():
    def fn(x):
        return x.sum(), x.mean()

    assert differing(fn, {n: (random(n),) for n in LENGTHS if n < 32768}) == []


def test_sums_of_several_stretches():
    def fn(x):
        return x.sum((0, 2)), x.mean((0, 2))

    assert differing(fn, {n: (random(4, 3, n),) for n in (1, 5, 8, 40, 63, 1000, 9000)}) == []


@pytest.fixture
def gradients():
    """Softmaxes add in eager's order where there are gradients."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def test_softmax(gradients):
    def fn(x):
        return torch.softmax(x, -1), torch.log_softmax(x, -1)

    assert differing(fn, {n: ((4 * rows(n)).requires_grad_(),) for n in LENGTHS}) == []


def test_softmax_of_what_is_not_finite(gradients):
    inf, nan = float("inf"), float("nan")

    def fn(x):
        return torch.softmax(x, -1), torch.log_softmax(x, -1)

    for n in (3, 20, 700, 4096):
        x = rows(n)
        for row, value in enumerate((nan, inf, -inf, nan)):
            x[row, row % n] = value
        x[3, :2] = -inf
        x[4] = -inf
        x.requires_grad_()
        torch._dynamo.reset()
        made = torch.compile(fn, backend="poot", dynamic=False)(x)
        torch.testing.assert_close(made, fn(x), rtol=0, atol=0, equal_nan=True)


def test_softmax_beside_sums(gradients):
    def fn(x):
        return torch.softmax(x, -1), x.sum(-1), (2 * x).log_softmax(-1)

    assert differing(fn, {n: (rows(n).requires_grad_(),) for n in LENGTHS[::7]}) == []


def test_gradients_of_softmax():
    def fn(grad, y):
        of_softmax = aten._softmax_backward_data(grad, y, -1, torch.float32)
        return of_softmax, aten._log_softmax_backward_data(grad, y, -1, torch.float32)

    assert differing(fn, {n: (rows(n), rows(n)) for n in LENGTHS}) == []


@pytest.mark.parametrize("fn", [torch.softmax, torch.log_softmax])
def test_training(fn, gradients):
    def step(x, grad):
        x = x.detach().requires_grad_()
        y = fn(x, -1)
        y.backward(grad)
        return y.detach(), x.grad

    def compiled(x, grad):
        x = x.detach().requires_grad_()
        torch._dynamo.reset()
        y = torch.compile(fn, backend="poot", dynamic=False)(x, -1)
        y.backward(grad)
        return y.detach(), x.grad

    for n in LENGTHS[::9]:
        x, grad = torch.randn(7, n), torch.randn(7, n)
        assert all(torch.equal(a, b) for a, b in zip(compiled(x, grad), step(x, grad), strict=True)), n


@pytest.mark.parametrize("fn", [torch.sum, torch.softmax, torch.log_softmax])
def test_symbolic_lengths(fn, gradients):
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="poot", dynamic=True)
    for n in LENGTHS[1::5]:
        x = rows(n).requires_grad_()
        assert torch.equal(compiled(x, -1), fn(x, -1)), n
