"""0-d f64 tensors on the CPU, which Dynamo holds for numbers: updates in place of them must not be lost."""

import pytest
import torch
from three_way import check

from poot_torch.backend import poot


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def updated(x, y):
    x.mul_(2.0)
    x.add_(y)
    return x.sin()


@torch.no_grad()
def test_updates_are_kept_and_traced_once():
    traces = []

    def backend(gm, inputs):
        traces.append(gm)
        return poot(gm, inputs)

    check(updated, number(3.0), number(5.0), peer=False)
    torch._dynamo.reset()
    x = number(3.0)
    assert torch.compile(updated, backend=backend)(x, number(5.0)) == number(11.0).sin()
    assert x == 11.0 and len(traces) == 1


@torch.no_grad()
def test_a_number_that_is_read_beside_an_update():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):

        def fn(x):
            y = x.item()
            x.mul_(2.0)
            return torch.zeros(3, dtype=torch.float64) + y

        compiled = torch.compile(fn, backend=poot)
        for value in (3.0, 4.5):
            x = number(value)
            assert compiled(x).tolist() == [value] * 3 and x == 2 * value


@torch.no_grad()
def test_an_update_that_another_trace_would_lose_is_refused():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):

        def fn(x):
            y = x.item()
            x.mul_(2.0)
            return torch.full((3,), y)

        x = number(3.0)
        with pytest.raises(Exception, match="would lose mul_"):
            torch.compile(fn, backend=poot)(x)
        assert x == 3.0


@torch.no_grad()
def test_dynamic_python_numbers_still_become_tensors():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: x.mul_(2.0) * y, backend=poot)
    for y in (2.5, 3.5, 4.5):
        x = number(3.0)
        assert compiled(x, y) == 6.0 * y and x == 6.0


@pytest.mark.parametrize("name", ["Adadelta", "Adam", "NAdam", "RMSprop", "Rprop"])
def test_an_optimizer_of_a_single_number(name):
    def train(compiled):
        torch._dynamo.reset()
        p = torch.nn.Parameter(number(1.5))
        optimizer = getattr(torch.optim, name)([p], foreach=False)
        step = torch.compile(optimizer.step, backend=poot) if compiled else optimizer.step
        for slope in (0.3, -0.2, 0.7):
            p.grad = number(slope)
            step()
        return p.detach()

    torch.testing.assert_close(train(True), train(False), rtol=1e-12, atol=0)
