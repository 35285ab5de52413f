"""What tests of matrix products share, whichever plan computes these."""

import torch

import poot_torch

F = torch.nn.functional
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def plan(fn, *args, **options):
    """The report's graph of fn, compiled afresh."""
    torch._dynamo.reset()
    torch.compile(fn, backend="poot", options={"strict": True, **options})(*args)
    return poot_torch.last_report().to_json()["graphs"][0]


def classes(graph):
    """What became of each product."""
    return [c["class"] for c in graph["contractions"]]


def followed(x, w):
    return F.relu(F.linear(x, w))


def gated_mlp(x, gate, up, down):
    return x + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def equal_on_any_threads(fn, *args, **options):
    """Asserts that the number of threads changes no bit of fn's results."""
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="poot", options=options)
    threads, results = torch.get_num_threads(), []
    try:
        for n in (1, 2, threads):
            torch.set_num_threads(n)
            results.append(compiled(*args))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
