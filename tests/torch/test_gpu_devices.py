"""Several GPUs in one process (`--device cuda`, two of them): programs run where their tensors lie, whichever device is
current, with kernels, graphs and memory of that device."""

import gc
import threading

import pytest
import torch

import poot_torch


@pytest.fixture(autouse=True)
def two_gpus(on_gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    torch.cuda.set_device(0)


def fn(x, w):
    return torch.softmax(torch.relu(x @ w) + x, -1) @ w


def operands(device, seed=0):
    g = torch.Generator(device=device).manual_seed(seed)
    return (torch.randn(64, 64, device=device, generator=g) for _ in range(2))


def check(f, device, seed=0):
    x, w = operands(device, seed)
    y = f(x, w)
    assert y.device == torch.device(device)
    torch.testing.assert_close(y, fn(x, w), rtol=1e-4, atol=1e-5)


def test_a_function_on_each_device_in_turn():
    f = torch.compile(fn, backend="poot", options={"strict": True})
    for seed in range(6):
        for device in ("cuda:0", "cuda:1"):
            check(f, device, seed)
            assert torch.cuda.current_device() == 0
    assert poot_torch.last_report().to_json()["totals"]["graphs"] == 2


def test_the_current_device_does_not_matter():
    f = torch.compile(fn, backend="poot", options={"strict": True})
    for current in (1, 0, 1):
        with torch.cuda.device(current):
            for device in ("cuda:1", "cuda:0"):
                for seed in range(4):
                    check(f, device, seed)
            assert torch.cuda.current_device() == current


def test_memory_is_taken_on_the_device_of_the_tensors():
    f = torch.compile(fn, backend="poot", options={"strict": True})
    x, w = operands("cuda:1")
    gc.collect()  # what earlier programs hold on the other device
    before = torch.cuda.memory_allocated(0)
    kept = [f(x, w) for _ in range(8)]
    assert torch.cuda.memory_allocated(0) <= before  # workspaces of cuBLAS may go
    assert torch.cuda.memory_allocated(1) >= sum(t.nbytes for t in kept)


def test_threads_on_two_devices_at_once():
    f = torch.compile(fn, backend="poot", options={"strict": True})
    failures = []

    def work(device):
        try:
            with torch.no_grad():
                for seed in range(30):
                    check(f, device, seed)
        except Exception as e:
            failures.append(e)

    def at_once(*devices):
        threads = [threading.Thread(target=work, args=(d,)) for d in devices]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    for device in ("cuda:0", "cuda:1"):  # Dynamo compiles in a thread at a time, under that thread's default device
        at_once(device)
    at_once("cuda:0", "cuda:1", "cuda:0", "cuda:1")
    assert not failures, failures


def test_tensors_of_two_devices_in_one_graph_are_eagers_or_an_error():
    def both(x, y):
        return (x * 2 + 1).to("cuda:0") + y

    x, y = torch.randn(8, device="cuda:1"), torch.randn(8, device="cuda:0")
    f = torch.compile(both, backend="poot")
    torch.testing.assert_close(f(x, y), both(x, y))
