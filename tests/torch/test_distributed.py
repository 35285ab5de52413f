"""DistributedDataParallel: Dynamo's graph is split at the buckets, and each part compiles both ways."""

import copy
import socket

import pytest
import torch
import torch.multiprocessing
from torch._dynamo.utils import counters

import poot_torch
from poot_torch.backend import poot

SIZE, LAYERS = 512, 6  # 1 MiB a layer, more than a bucket holds


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(SIZE, SIZE) for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


def train(rank, port):
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = Layers()
    parallel = [torch.nn.parallel.DistributedDataParallel(m, bucket_cap_mb=1.2) for m in (model, copy.deepcopy(model))]
    runs = [torch.compile(parallel[0], backend=poot), parallel[1]]
    for step in range(3):
        torch.manual_seed(10 * rank + step)
        x = torch.randn(8, SIZE)
        for ddp, run in zip(parallel, runs, strict=True):
            ddp.zero_grad()
            run(x).pow(2).sum().backward()
        for got, want in zip(parallel[0].parameters(), parallel[1].parameters(), strict=True):
            torch.testing.assert_close(got.grad, want.grad)
    split = [r for r in poot_torch.last_report().regions if "DDPOptimizer" in r.break_reason]
    assert len(split) > 1, "the graph was not split at buckets"
    assert not [k for k in counters["poot"] if "fallback" in k]
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_buckets_split_the_graph_in_two_processes():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(train, args=(port,), nprocs=2)


def test_compiled_autograd():
    """The whole step is one function: the backward pass is traced by compiled autograd."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    x = torch.randn(8, 16)

    def step():
        model.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        return loss

    want = step()
    gradients = [p.grad.clone() for p in model.parameters()]
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(compiled_autograd=True):
        compiled = torch.compile(step, backend=poot)
        for _ in range(2):
            torch.testing.assert_close(compiled(), want)
            for p, g in zip(model.parameters(), gradients, strict=True):
                torch.testing.assert_close(p.grad, g)
    assert counters["compiled_autograd"]["captures"] == 1
    assert not [k for k in counters["poot"] if "fallback" in k]
