"""The shortest path through every layer; part of `make check`."""

import torch


def test_relu_of_x_plus_one():
    torch._dynamo.reset()

    def fn(x):
        return torch.relu(x + 1)

    compiled = torch.compile(fn, backend="poot", options={"strict": True})
    for shape in ((3, 5), (1024, 257), (0, 4), (1,)):
        x = torch.randn(shape)
        got = compiled(x)
        assert torch.equal(got, fn(x)) and got.stride() == x.stride()
