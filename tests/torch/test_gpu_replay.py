"""Library calls in replayed graphs, on a GPU (`--device cuda`): what a caller may do between and around the calls."""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("on_gpu")


def chain(x, w, v):
    """Kernels around products and an attention."""
    h = F.gelu(x @ w) + x
    q = h.view(1, 4, -1, 16)
    return torch.relu(F.scaled_dot_product_attention(q, q, q).reshape(h.shape) @ v) * 2


def compiled(fn=chain, **options):
    return torch.compile(fn, backend="poot", options={"strict": True, **options})


def operands(rows=32, seed=0):
    torch.manual_seed(seed)
    return torch.randn(rows, 64), torch.randn(64, 64) / 8, torch.randn(64, 64) / 8


def close(got, *args):
    torch.testing.assert_close(got, chain(*args), rtol=1e-4, atol=1e-4)


def test_every_call_is_right_whatever_moves():
    f = compiled()
    x, w, v = operands()
    for i in range(12):
        args = (x + i, w, v) if i < 6 else (x.clone(), w.clone() * i, v)
        close(f(*args), *args)


def test_results_outlive_later_calls():
    f = compiled()
    x, w, v = operands()
    kept = [(f(x + i, w, v), x + i) for i in range(10)]
    for got, at in kept:
        close(got, at, w, v)
    y = f(f(x, w, v), w, v)
    close(y, chain(x, w, v), w, v)


def test_weights_written_in_place_are_seen():
    f = compiled()
    x, w, v = operands()
    for _ in range(6):
        close(f(x, w, v), x, w, v)
        w.mul_(0.9)


def test_streams_do_not_share_a_graphs_memory():
    f = compiled()
    x, w, v = operands(256)
    for _ in range(5):
        f(x, w, v)
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    got = []
    for i in range(30):
        with torch.cuda.stream(streams[i % 3]):
            got.append(f(x, w, v))
    torch.cuda.synchronize()
    for y in got:
        close(y, x, w, v)


def test_inside_the_users_own_graph():
    f = compiled()
    x, w, v = operands()
    for _ in range(5):
        f(x, w, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x, w, v)
    x.mul_(0.5)
    graph.replay()
    close(y, x, w, v)
    close(f(x, w, v), x, w, v)


def test_no_captures_where_they_are_off():
    f = compiled(capture_libraries=False)
    x, w, v = operands()
    for i in range(5):
        close(f(x + i, w, v), x + i, w, v)


def test_memory_is_flat_over_many_sizes():
    def fn(x, w, v):
        return torch.relu(F.gelu(x @ w) + x) @ v * 2

    f = torch.compile(fn, backend="poot", options={"strict": True}, dynamic=True)
    x, w, v = operands(800)
    used = []
    for i in range(1000):
        rows = x[: 16 * (i % 50 + 1)]
        y = f(rows, w, v)
        if i % 250 == 249:
            torch.cuda.synchronize()
            torch.testing.assert_close(y, fn(rows, w, v), rtol=1e-4, atol=1e-4)
            used.append(torch.cuda.memory_allocated())
    assert used[-1] == used[1], used
