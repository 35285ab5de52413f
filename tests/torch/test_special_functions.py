"""Special functions as kernels, against eager: near and far from zero and where they are not finite."""

import math

import pytest
import torch
from three_way import check, gradients

import poot_torch

S = torch.special
EVERYWHERE = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "erfcx",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log_ndtr",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
]
EDGES = [0.0, -0.0, 1e-6, 0.46875, 0.5, 2.0, 2.09, 4.0, 5.0, 8.0, 8.5, 26.0, 104.0, 1e10, math.inf, math.nan]


def grid(dtype):
    edges = torch.tensor(EDGES, dtype=torch.float64)
    return torch.cat([torch.linspace(-15, 15, 997, dtype=torch.float64), edges, -edges]).to(dtype)


def agree(fn, x):
    """Up to the rounding of sums that cancel near zeros."""
    torch._dynamo.reset()
    got = torch.compile(fn, backend="poot", fullgraph=True, options={"strict": True})(x)
    want = fn(x)
    assert poot_torch.last_report().totals()["classes"]["library"] == 0
    assert got.dtype == want.dtype
    unit = torch.finfo(want.dtype).eps
    torch.testing.assert_close(got, want, rtol=16 * unit, atol=16 * unit, equal_nan=True)


@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_function(name, dtype):
    agree(lambda x: getattr(S, name)(x), grid(dtype))


@pytest.mark.parametrize("name", EVERYWHERE)
def test_of_integers(name):
    agree(lambda x: getattr(S, name)(x), torch.arange(-12, 13))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_quantiles(dtype):
    inside = torch.cat(
        [torch.linspace(0, 1, 501, dtype=torch.float64), torch.logspace(-37, -1, 99, dtype=torch.float64)]
    )
    outside = torch.tensor([-1.0, 2.0, math.inf, -math.inf, math.nan], dtype=torch.float64)
    agree(lambda x: S.ndtri(x), torch.cat([inside, outside]).to(dtype))


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_polygamma(n, dtype):
    x = torch.cat([torch.linspace(0.05, 15, 500), -torch.arange(0, 12) - 0.4, torch.tensor([0.0, -3.0, math.nan])])
    agree(lambda x: torch.polygamma(n, x), x.to(dtype))


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e", "erfcx", "log_ndtr", "digamma"])
def test_gradient(name):
    fn = getattr(S, name)
    gradients(lambda x: fn(x).sum(), torch.linspace(0.1, 12, 101).requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e"])
def test_narrow_types(name, dtype):
    check(lambda x: getattr(S, name)(x), torch.linspace(-4, 4, 401).to(dtype))
