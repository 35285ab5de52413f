"""Large results live in pooled memory: it comes back when the last tensor that shows it dies, and never before."""

import copy
import gc
import os
import pickle
import threading

import pytest
import torch

from poot_torch import _C
from poot_torch.backend import poot

N = 1 << 19  # elements: 2 MiB of f32


def double(x):
    return x * 2 + 1


def compiled(fn=double, **options):
    torch._dynamo.reset()
    return torch.compile(fn, backend=poot, dynamic=False, options=options or None)


@pytest.fixture(autouse=True)
def empty_pool():
    gc.collect()
    _C.trim_output_pool()
    with torch.no_grad():
        yield


def idle():
    return _C.output_pool_stats()["idle_bytes"]


def live():
    return _C.output_pool_stats()["live_bytes"]


def test_memory_of_a_dead_result_serves_the_next_call():
    fn, x = compiled(), torch.rand(N)
    first = fn(x)
    address = first.data_ptr()
    held = fn(x)
    assert held.data_ptr() != address
    del first
    again = fn(x + 1)
    assert again.data_ptr() == address
    assert torch.equal(again, double(x + 1)) and torch.equal(held, double(x))


def test_small_results_and_a_pool_turned_off_leave_it_alone():
    before = _C.output_pool_stats()
    compiled()(torch.rand(100))
    compiled(output_pool=False)(torch.rand(N))
    assert _C.output_pool_stats() == before


@pytest.mark.parametrize(
    "keep",
    [
        lambda t: t[5:],
        lambda t: t.view(2, -1).t(),
        lambda t: t.detach(),
        lambda t: t.numpy(),
        lambda t: torch.from_dlpack(t),
        lambda t: torch.empty(0).set_(t.untyped_storage(), 0, (N,)),
    ],
    ids=["slice", "view", "detach", "numpy", "dlpack", "set_"],
)
def test_memory_that_something_shows_is_not_handed_out(keep):
    fn, x = compiled(), torch.rand(N)
    shown = keep(fn(x))
    want = copy.deepcopy(shown)
    others = [fn(x + i) for i in range(1, 4)]
    assert bool((shown == want).all())
    del shown, others
    gc.collect()
    assert live() == 0 and idle() >= 8 * N


def test_resizing_keeps_contents_and_returns_the_old_block():
    out = compiled()(torch.rand(N))
    want = out.clone()
    out.resize_(2 * N)
    assert torch.equal(out[:N], want) and idle() == 4 * N and live() == 8 * N
    out.resize_(10)
    assert torch.equal(out, want[:10])
    small = out.untyped_storage().resize_(40)
    assert small.nbytes() == 40 and live() == 0


def test_sharing_pickling_and_swapping_storages():
    fn, x = compiled(), torch.rand(N)
    a, b = fn(x), fn(x + 1)
    want = a.clone()
    assert torch.equal(pickle.loads(pickle.dumps(a)), want)
    a.share_memory_()
    assert torch.equal(a, want) and a.is_shared() and live() == 4 * N
    a.set_(b)
    del b
    more = fn(x + 2)
    assert torch.equal(a, double(x + 1)) and torch.equal(more, double(x + 2))


def test_saved_activations_keep_their_memory():
    x = torch.rand(N, requires_grad=True)
    with torch.enable_grad():
        fn = compiled(lambda x: (torch.sin(x) * torch.exp(x)).sum())
        other = torch.compile(double, backend=poot, dynamic=False)
        loss = fn(x)
        with torch.no_grad():
            for i in range(3):
                other(x.detach() + i)
        loss.backward()
    want = torch.cos(x) * torch.exp(x) + torch.sin(x) * torch.exp(x)
    torch.testing.assert_close(x.grad, want.detach())


def test_threads_get_memory_of_their_own():
    fn = compiled()
    fn(torch.rand(N))
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            held = []
            for _ in range(30):
                x = torch.rand(N, generator=generator)
                held.append((x, fn(x)))
                if len(held) > 2:
                    x, y = held.pop(0)
                    if not torch.equal(y, double(x)):
                        wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    del threads
    gc.collect()
    assert live() == 0 and _C.output_pool_stats()["reused"] > 0


def test_a_forked_child_uses_its_copy():
    fn, x = compiled(), torch.rand(N)
    out = fn(x)
    want = out.clone()
    child = os.fork()
    if child == 0:
        # The child's kernels run on one thread: torch's team did not survive the fork.
        torch.set_num_threads(1)
        pool = _C.output_pool_stats()
        out.fill_(0)
        del out
        _C.trim_output_pool()
        os._exit(0 if _C.output_pool_stats()["live_bytes"] < pool["live_bytes"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(out, want)


def test_transients_of_all_programs_share_it():
    w = torch.rand(512, 1024)
    fn = compiled(lambda x: torch.softmax(x @ w, -1).sum())  # the product is a transient of 2 MiB
    other = torch.compile(lambda x: torch.tanh(x @ w).amax(), backend=poot, dynamic=False)
    x = torch.rand(512, 512)
    torch.testing.assert_close(fn(x), torch.softmax(x @ w, -1).sum())
    kept, fresh = idle(), _C.output_pool_stats()["fresh"]
    assert live() == 0 and kept >= 4 * N
    torch.testing.assert_close(other(x), torch.tanh(x @ w).amax())
    fn(x)
    assert _C.output_pool_stats()["fresh"] == fresh and idle() == kept


def test_a_reset_empties_it():
    compiled()(torch.rand(N))
    gc.collect()
    assert idle() > 0
    torch._dynamo.reset()
    assert idle() == 0
