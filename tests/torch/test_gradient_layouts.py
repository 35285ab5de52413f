"""Gradients of products of reflections lie as their operands, as eager's do."""

import pytest
import torch

from poot_torch.backend import poot

LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "columns": lambda x: x.mT.contiguous().mT,
    "batch last": lambda x: x.permute(1, 2, 0).contiguous().permute(2, 0, 1),
    "gaps": lambda x: torch.zeros(4, 12, 8, dtype=x.dtype)[::2, ::2, ::2].copy_(x),
}
PRODUCTS = {
    "left": lambda a, tau, x: torch.ormqr(a, tau, x),
    "left, transposed": lambda a, tau, x: a.ormqr(tau, x, True, True),
    "right": lambda a, tau, x: torch.ormqr(a, tau, x.mT, left=False),
    "alone": lambda a, tau, x: torch.linalg.householder_product(a, tau) @ x[:, :4],
    "method": lambda a, tau, x: a.orgqr(tau) @ x[:, :4],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_reflections(name, layout):
    torch.manual_seed(0)
    a, tau = torch.geqrf(torch.randn(2, 6, 4, dtype=torch.float64))
    operands = (LAYOUTS[layout](a), tau.t().contiguous().t(), torch.randn(2, 6, 3, dtype=torch.float64))

    def run(fn):
        given = [t.detach().requires_grad_() for t in operands]
        result = fn(*given)
        return result.detach(), *torch.autograd.grad(result.sin().sum(), given)

    torch._dynamo.reset()
    want = run(PRODUCTS[name])
    got = run(torch.compile(PRODUCTS[name], backend=poot, fullgraph=True, options={"strict": True}))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w)
        assert g.stride() == w.stride()
