"""Strides of gradients follow those of the gradient that comes in, as eager's do."""

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import poot_torch
from poot_torch.backend import poot

F = torch.nn.functional
STRICT = {"strict": True}


def slopes(shape):
    """One gradient in several layouts: C order, Fortran order, every other element, one number seen everywhere."""
    g = torch.Generator().manual_seed(1)
    dense = torch.randn(shape, generator=g)
    last_first = list(reversed(range(len(shape))))
    turned = dense.permute(last_first).contiguous().permute(last_first)
    spread = torch.randn((*shape[:-1], 2 * shape[-1]), generator=g)[..., ::2]
    return dense, turned, spread, torch.ones(()).expand(shape)


FUNCTIONS = {
    "pointwise": lambda x, y: x.sin() * y,
    "through": lambda x, y: x + y,
    "transposed result": lambda x, y: (x * y).transpose(0, 1),
    "view of an intermediate": lambda x, y: (x * y).exp().view(x.shape[0], -1),
    "norm": lambda x, y: F.layer_norm(x, x.shape[-1:]).transpose(0, 1) * y.transpose(0, 1),
    "softmax": lambda x, y: x.softmax(-1) * y,
    "product": lambda x, y: x @ y.transpose(1, 2),
    "sum": lambda x, y: (x * y).sum(0),
    "dropout": lambda x, y: F.dropout(x, 0.5) * y,
    "two results": lambda x, y: (x.t() if x.ndim == 2 else x.mT) * y.mT,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strides_and_values(name):
    fn = FUNCTIONS[name]
    g = torch.Generator().manual_seed(0)
    args = [torch.randn(4, 3, 6, generator=g, requires_grad=True) for _ in range(2)]
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot, options=STRICT)
    for slope in slopes(fn(*args).shape) * 2:
        found = []
        for f in (fn, compiled):
            torch.manual_seed(5)
            found.append(torch.autograd.grad(f(*args), args, slope))
        for want, got in zip(*found, strict=True):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()
    assert counters["poot"]["graphs:backward"] >= 1


def test_several_results_of_which_one_has_other_strides():
    def fn(x):
        return x * 2, x.exp().t(), x.sum()

    x = torch.randn(3, 5, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=poot, options=STRICT)
    for turned in (False, True):
        second = torch.randn(3, 5).t() if turned else torch.randn(5, 3)
        given = (torch.randn(5, 3).t(), second, torch.ones(()))
        want, got = (torch.autograd.grad(f(x), x, given)[0] for f in (fn, compiled))
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()


@pytest.mark.parametrize("norm_first", (False, True))
def test_transformer_decoder_layer(norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first=norm_first)
    target, memory = (torch.randn(2, n, 4, requires_grad=True) for n in (3, 5))
    wanted = [target, memory, *layer.parameters()]
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend=poot, options=STRICT)
    slope = torch.randn(2, 3, 4)
    found = [torch.autograd.grad(f(target, memory), wanted, slope) for f in (layer, compiled)]
    for want, got in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert got.stride() == want.stride()


def test_the_generator_stays_where_eager_leaves_it():
    x = torch.randn(4, 4, requires_grad=True)
    states = []
    for f in (lambda x: F.dropout(x, 0.5), torch.compile(lambda x: F.dropout(x, 0.5), backend=poot)):
        torch.manual_seed(0)
        torch.autograd.grad(f(x), x, torch.randn(4, 4).t())
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.left, self.right = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(5, 2)

    def forward(self, x):
        h = self.shared(x).tanh()
        return self.left(h), self.right(h), x.sign() * self.shared.weight.sum()


def heads(use):
    """(eager's gradients, poot's) of the two heads' parameters where only results `use` are read, step by step."""
    torch.manual_seed(0)
    models = TwoHeads(), TwoHeads()
    models[1].load_state_dict(models[0].state_dict())
    torch._dynamo.reset()
    runs = models[0], torch.compile(models[1], backend=poot, options=STRICT)
    found = []
    for step in use:
        x = torch.randn(6, 4)
        for model, run in zip(models, runs, strict=True):
            model.zero_grad()
            results = run(x)
            sum(results[i].square().sum() for i in step).backward()
        found.append([[p.grad for p in m.parameters()] for m in models])
    return found


@pytest.mark.parametrize("use", ([(0,)], [(1,), (0, 1), (1,)], [(2,), (0,), (0, 1, 2)]))
def test_no_gradient_where_eager_has_none(use):
    for eager, ours in heads(use):
        for want, got in zip(eager, ours, strict=True):
            assert (want is None) == (got is None)
            if want is not None:
                torch.testing.assert_close(got, want)


def test_what_only_an_absent_gradient_reaches_is_not_computed():
    nodes = []
    for use in ([(0, 1, 2)], [(0, 1)], [(0,)]):
        heads(use)
        (graph,) = (g for g in poot_torch.last_report().graphs if g.kind == "backward")
        nodes.append(graph.nodes)
    assert nodes[0] > nodes[1] > nodes[2]


def test_results_that_nothing_reads_under_compiled_autograd():
    torch.manual_seed(0)
    model = TwoHeads()
    x = torch.randn(6, 4)
    model(x)[0].sum().backward()
    want = model.left.weight.grad.clone()
    model.zero_grad()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=poot)
    loss = compiled(x)[0].sum()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend=poot)):
        loss.backward()
    torch.testing.assert_close(model.left.weight.grad, want)
