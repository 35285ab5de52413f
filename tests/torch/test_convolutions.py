"""Convolutions by plan: the library's call, and the product of a large weight with the image's windows."""

import pytest
import torch
from inputs import random
from three_way import check

import poot_torch

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("inference")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_weights(dtype, device):
    """On a CPU products of windows; a GPU's library reads the weights as fast itself."""

    def net(x, w, v, u):
        y = F.relu(F.conv2d(x, w, padding=1))
        y = F.relu(F.conv2d(y, v, stride=2, padding=(0, 2), dilation=(1, 2)))
        return F.relu(F.conv2d(y, u)).mean((2, 3))

    def fn(x, *weights):  # several nets: the error of one depends on its numbers
        return torch.cat([net(x, *weights[i : i + 3]) for i in range(0, len(weights), 3)])

    shapes = [(96, 24, 3, 3), (64, 96, 3, 2), (80, 64, 1, 1)]
    weights = [random(*s, dtype=dtype, seed=seed) for seed in range(4) for s in shapes]
    for x in (
        random(2, 24, 3, 4, dtype=dtype),
        random(1, 24, 5, 3, dtype=dtype).contiguous(memory_format=torch.channels_last),
    ):
        check(fn, x, *weights, peer=False)
        ops = [op["kernel"] for g in poot_torch.last_report().to_json()["graphs"] for op in g["ops"]]
        if device == "cpu":
            assert ops.count("mm") >= 8
        else:
            assert ops.count("convolution") == 12


def test_what_stays_a_call():
    def fn(x, grouped, w, b):
        y = F.relu(F.conv2d(x, grouped, padding=1, groups=2))
        return F.conv2d(y, w, b), F.conv_transpose2d(y, w.transpose(0, 1))

    args = random(1, 8, 3, 3), random(64, 4, 3, 3), random(64, 64, 1, 1), random(64)
    check(fn, *args, peer=False)
    ops = [op["kernel"] for g in poot_torch.last_report().to_json()["graphs"] for op in g["ops"]]
    assert "mm" not in ops


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_layouts(dtype, memory_format):
    def fn(x, w, v):
        y = F.max_pool2d(F.relu(F.conv2d(x, w, stride=2, padding=1)), 2)
        return F.relu(F.conv2d(y, v, padding=1)) + y

    x = random(2, 3, 18, 21, dtype=dtype).contiguous(memory_format=memory_format)
    check(fn, x, random(8, 3, 3, 3, dtype=dtype), random(8, 8, 3, 3, dtype=dtype), peer=False)
