"""Where the numbers of a draw lie.

Eager fills memory in its own order, and some kernels draw otherwise where it is not contiguous. So a draw into a
tensor, which functionalization turned into one of a new tensor, runs in place on memory laid out as the tensor. The
results of other draws are contiguous, whatever their operands are and whatever their meta functions say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
OWN: dict[Any, Callable[..., Any]] = {}

IN_PLACE: dict[torch._ops.OpOverload, torch._ops.OpOverload] = {
    aten.normal_functional.default: aten.normal_.default,
    aten.uniform.default: aten.uniform_.default,
    aten.exponential.default: aten.exponential_.default,
    aten.geometric.default: aten.geometric_.default,
    aten.cauchy.default: aten.cauchy_.default,
    aten.log_normal.default: aten.log_normal_.default,
    aten.random.default: aten.random_.default,
    aten.random.to: aten.random_.to,
    aten.bernoulli.p: aten.bernoulli_.float,
    aten.bernoulli.Tensor: aten.bernoulli_.Tensor,
}
"""What a draw of a new tensor, shaped as its first operand, was before functionalization."""


FILLS = frozenset(op._schema.name.removeprefix("aten::") for op in IN_PLACE.values())


def fill_with_gaps(x: Tensor, method: str, *args: Any, **kwargs: Any) -> Tensor:
    """A draw into memory with gaps between elements, which functionalization forgets once the tensor was written."""
    drawn = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
    return x.copy_(getattr(drawn, method)(*args, **kwargs))


def bernoulli(input: Tensor, p: float, *, generator: torch.Generator | None = None) -> Tensor:
    """torch.bernoulli(input, p), whose result is contiguous, unlike input.bernoulli_(p)."""
    return torch.empty_like(input, memory_format=torch.contiguous_format).bernoulli_(p, generator=generator)


def _contiguous(op: torch._ops.OpOverload) -> Callable[..., Any]:
    """The call with contiguous operands, which changes no number."""

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        if all(a.is_contiguous() for a in args if isinstance(a, Tensor)):
            return NotImplemented
        return op(*(a.contiguous() if isinstance(a, Tensor) else a for a in args), **kwargs)

    return decomposition


for _op in (
    aten.poisson.default,
    aten._standard_gamma.default,
    aten._sample_dirichlet.default,
    aten.normal.Tensor_Tensor,
    aten.normal.Tensor_float,
    aten.normal.float_Tensor,
    aten.rrelu_with_noise_functional.default,
):
    OWN[_op] = _contiguous(_op)
