"""Calls from several threads, and thread counts that change between calls."""

import threading
from unittest import mock

import torch

import poot_torch.backend
from poot_torch.backend import poot


def block(x, w, b):
    return torch.softmax(torch.relu(x @ w + b) * 2, -1), (x * x).sum(0)


def inputs(rows, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 64, generator=g), torch.randn(64, 96, generator=g), torch.randn(96, generator=g)


@torch.no_grad()
def test_calls_from_several_threads():
    torch._dynamo.reset()
    fn = torch.compile(block, backend=poot, dynamic=True)
    cases = [(inputs(rows, rows)) for rows in (3, 40, 700, 2048)]
    want = [fn(*c) for c in cases]
    wrong = []

    def work(number):
        with torch.no_grad():
            for i in range(40):
                k = (number + i) % len(cases)
                got = fn(*cases[k])
                if not all(torch.equal(g, w) for g, w in zip(got, want[k], strict=True)):
                    wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@torch.no_grad()
def test_first_calls_from_several_threads():
    torch._dynamo.reset()
    fn = torch.compile(block, backend=poot, dynamic=False)
    results, errors = {}, []

    def work(rows):
        try:
            with torch.no_grad():
                results[rows] = fn(*inputs(rows, rows))
        except Exception as e:  # told by the test's thread
            errors.append(e)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (5, 6, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    for rows, got in results.items():
        for g, w in zip(got, block(*inputs(rows, rows)), strict=True):
            torch.testing.assert_close(g, w)


@torch.no_grad()
def test_eight_threads_call_one_module_and_compile_others():
    torch._dynamo.reset()
    torch.manual_seed(0)
    shared = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32))
    compiled = torch.compile(shared, backend=poot)
    x = torch.randn(4, 16)
    right = compiled(x), shared(x)  # Dynamo runs a call in eager at times, while another thread compiles
    wrong, errors = [], []

    def work(number):
        try:
            with torch.no_grad():
                own = torch.nn.Sequential(torch.nn.Linear(16, 8 + number), torch.nn.Softmax(-1))
                mine = torch.compile(own, backend=poot)
                for i in range(20):
                    got = compiled(x)
                    if not any(torch.equal(got, r) for r in right):
                        wrong.append((number, i))
                    if i % 5 == 0:
                        torch.testing.assert_close(mine(x), own(x))
        except Exception as e:  # told by the test's thread
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and not errors


@torch.no_grad()
def test_thread_count_changed_between_calls():
    """Dynamo guards the count and recompiles; code that is called anyway follows it, with equal bits."""
    before = torch.get_num_threads()
    args = inputs(4096, 1)
    boxed = []
    make = poot_torch.backend._compile
    torch._dynamo.reset()
    fn = torch.compile(lambda x: (torch.exp(x) * 2, (x * x).sum(0)), backend=poot, dynamic=False)
    with mock.patch.object(poot_torch.backend, "_compile", lambda *a, **k: boxed.append(make(*a, **k)) or boxed[-1]):
        want = fn(args[0])
    try:
        for n in (1, 2, 3, 1, before):
            torch.set_num_threads(n)
            for got in (boxed[0]([args[0]]), fn(args[0])):
                assert torch.get_num_threads() == n
                assert all(torch.equal(g, w) for g, w in zip(got, want, strict=True))
    finally:
        torch.set_num_threads(before)
