"""Batch norm at inference rounds as eager's kernel does: scale and shift, each once. Running statistics keep their
dtype, which the trace may widen."""

import copy

import pytest
import torch
from three_way import check


@pytest.mark.parametrize("layout", (torch.contiguous_format, torch.channels_last))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
def test_eagers_bits(dtype, layout):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 64, 28, 28, generator=generator).to(dtype).contiguous(memory_format=layout)
    if x.device.type != "cpu":
        pytest.skip("eager's kernels of a GPU round otherwise")
    mean, weight, bias = (torch.randn(64, generator=generator) for _ in range(3))
    variance = torch.rand(64, generator=generator) + 0.3

    def fn(x):
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, False, 0.1, 1e-5)

    with torch.no_grad():
        assert torch.equal(check(fn, x, peer=False, judge=False), fn(x))


@pytest.mark.parametrize("shape", ((32, 48, 8, 8), (16, 96, 4, 4), (8, 24, 64), (2, 96, 15, 15), (3, 5, 7, 3, 2)))
@torch.no_grad()
def test_eagers_bits_in_training(shape):
    """Statistics of f32 are summed in f64; the sum of squares and the variance are rounded. Running statistics too."""
    generator = torch.Generator().manual_seed(0)
    channels = shape[1]
    column = [channels if i == 1 else 1 for i in range(len(shape))]
    x = torch.randn(shape, generator=generator) * torch.rand(column, generator=generator) + 3
    weight, bias = torch.randn(channels, generator=generator), torch.randn(channels, generator=generator)

    def fn(x, weight, bias, mean, variance):
        mean, variance = mean.clone(), variance.clone()
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, True, 0.1, 1e-3), mean, variance

    args = x, weight, bias, weight + 1, bias.abs()
    got = check(fn, *args, peer=False, judge=False)
    if x.device.type == "cpu":
        assert all(map(torch.equal, got, fn(*args)))


@pytest.fixture
def threads():
    """Sets the number of eager's threads."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


ROWS = ((512, 32), (37, 24), (2, 64), (50, 640), (40, 16, 1, 1), (6, 48, 1))
IMAGES = ((4, 24, 6, 5), (16, 8, 14, 14), (3, 520, 4, 4))


@pytest.mark.parametrize("count", (1, 2, 3))
@pytest.mark.parametrize(
    ("shape", "layout"),
    [(s, torch.contiguous_format) for s in (*ROWS, *IMAGES, (8, 12, 33))]
    + [(s, torch.channels_last) for s in IMAGES]
    + [((2, 24, 3, 5, 4), torch.channels_last_3d)],
)
def test_eagers_bits_with_gradients(shape, layout, count, threads, device):
    """Eager's threads each sum some of the rows of channels last, in f32."""
    if device != "cpu":
        pytest.skip("a GPU's batch norms round otherwise")
    threads(count)
    generator = torch.Generator().manual_seed(0)
    channels = shape[1]
    x, grad = (torch.randn(shape, generator=generator).contiguous(memory_format=layout) for _ in range(2))
    x = x * 2 + 1
    vectors = [torch.rand(channels, generator=generator) + 0.5 for _ in range(4)]

    def run(f):
        leaf, weight, bias = (t.clone().requires_grad_() for t in (x, *vectors[:2]))
        mean, variance = (t.clone() for t in vectors[2:])
        y = f(leaf, mean, variance, weight, bias)
        y.backward(grad)
        return y, mean, variance, leaf.grad, weight.grad, bias.grad

    def fn(x, mean, variance, weight, bias):
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, True, 0.1, 1e-5)

    torch._dynamo.reset()
    for got, want in zip(run(torch.compile(fn, backend="poot", options={"strict": True})), run(fn), strict=True):
        assert torch.equal(got, want)


def test_products_before_a_batch_norm_are_rounded(threads, device):
    """Only eager's own products are joined to a sum in one rounding. Sizes that change have its bits as well."""
    if device != "cpu":
        pytest.skip("a GPU's batch norms round otherwise")
    threads(1)

    def fn(x, y):
        return torch.nn.functional.batch_norm(x * y, None, None, training=True)

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="poot", dynamic=True)
    for count in (64, 129):
        x, y = torch.randn(2, count, 32, generator=torch.Generator().manual_seed(count)).unbind()
        leaves = [x.clone().requires_grad_() for _ in range(2)]
        results = [f(leaf, y) for f, leaf in zip((compiled, fn), leaves, strict=True)]
        for r in results:
            (r * y).sum().backward()
        assert torch.equal(*results)
        assert torch.equal(*(leaf.grad for leaf in leaves))


@pytest.mark.parametrize("columns", (8, 64))
def test_sums_beside_a_batch_norm_keep_their_bits(columns, threads, device):
    """A sum over the same rows is a cascade, though the statistics are added one after the other."""
    if device != "cpu":
        pytest.skip("a GPU's batch norms round otherwise")
    threads(1)
    x = torch.randn(5000, columns, generator=torch.Generator().manual_seed(0)) + 3

    def fn(x):
        return torch.nn.functional.batch_norm(x, None, None, training=True), x.unsqueeze(0).sum(1)

    torch._dynamo.reset()
    results = [f(x.clone().requires_grad_()) for f in (torch.compile(fn, backend="poot", options={"strict": True}), fn)]
    for got, want in zip(*results, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize(
    ("shape", "dynamic"), (((64, 1), False), ((4096, 1), False), ((512, 24), False), ((65, 24), True), ((3, 24), True))
)
@pytest.mark.parametrize("later", (2, 3))
def test_precision_without_eagers_bits(shape, dynamic, later, threads, device):
    """One channel, changing sizes with several threads, or other threads than at compile time."""
    if device != "cpu":
        pytest.skip("eager's threads")
    threads(2)
    generator = torch.Generator().manual_seed(0)

    def sample(count):
        return (torch.randn(count, *shape[1:], generator=generator) * 2 + 3 for _ in range(2))

    def run(f, x, grad):
        leaf, mean, variance = x.clone().requires_grad_(), x.new_zeros(shape[1]), x.new_ones(shape[1])
        y = f(leaf, mean, variance)
        y.backward(grad)
        return y, mean, variance, leaf.grad

    def fn(x, mean, variance):
        return torch.nn.functional.batch_norm(x, mean, variance, training=True)

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="poot", dynamic=dynamic, options={"strict": True})
    if dynamic:
        run(compiled, *sample(40))
    args = tuple(sample(shape[0]))
    run(compiled, *args)
    threads(later)
    exact = run(fn, *(t.double() for t in args))
    for got, want, reference in zip(run(compiled, *args), run(fn, *args), exact, strict=True):
        errors = [(t.double() - reference).abs().max() for t in (got, want)]
        assert errors[0] <= 2 * errors[1] + torch.finfo(torch.float32).eps * reference.abs().max()


def test_convolutions_in_training_have_eagers_bits(device):
    """What follows a jump, such as that of relu6's derivative, then has its gradient, not one of the other side."""
    if device != "cpu":
        pytest.skip("a GPU's batch norms round otherwise")
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 16, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU6()]
    for _ in range(3):
        layers += [torch.nn.Conv2d(16, 96, 1, bias=False), torch.nn.BatchNorm2d(96), torch.nn.ReLU6()]
        layers += [torch.nn.Conv2d(96, 96, 3, 1, 1, groups=96, bias=False), torch.nn.BatchNorm2d(96), torch.nn.ReLU6()]
        layers += [torch.nn.Conv2d(96, 16, 1, bias=False), torch.nn.BatchNorm2d(16)]
    net = torch.nn.Sequential(*layers, torch.nn.Conv2d(16, 256, 3, 4))
    other = copy.deepcopy(net)
    compiled = torch.compile(other, backend="poot")
    for seed in range(2):
        x = torch.randn(2, 3, 30, 30, generator=torch.Generator().manual_seed(seed))
        y, got = net(x), compiled(x)
        assert torch.equal(y, got)
        y.square().sum().backward()
        got.square().sum().backward()
    grads, others = (torch.cat([p.grad.flatten() for p in n.parameters()]) for n in (net, other))
    assert (grads - others).norm() <= 1e-5 * grads.norm()
    for b, c in zip(net.buffers(), other.buffers(), strict=True):
        assert torch.equal(b, c)


@pytest.mark.parametrize("training", (True, False))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@torch.no_grad()
def test_running_statistics_of_16_bits(dtype, training):
    torch.manual_seed(0)
    x, mean, weight = torch.randn(4, 5, 6).to(dtype), torch.randn(5).to(dtype), torch.randn(5).to(dtype)
    variance = torch.rand(5).to(dtype) + 0.5

    def fn(x, mean, variance, weight):
        return torch.nn.functional.batch_norm(x, mean, variance, weight, None, training, 0.3)

    check(fn, x, mean, variance, weight, peer=False)
    check(lambda x, m, v: torch.nn.functional.instance_norm(x, m, v, momentum=0.3), x, mean, variance, peer=False)
