"""Numbers that tests are run on, by seed."""

import torch


def random(*shape, dtype=torch.float32, seed=0):
    """A tensor of this shape, normal."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
