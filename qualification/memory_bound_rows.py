"""The memory-bound computations that `memory_bound` times: pointwise chains, norms, softmax, cross-entropy and RoPE.

A row makes a function and its inputs at a size:

    full        the size that the targets are stated for
    tenth       a tenth of the rows (or of the sequence)
    odd-N       as many elements as `tenth`, in rows of N columns, with tails that no vector fills (N = 4095, 17, 1)
    few-N       N columns and at most the full number of rows: tens of KB, where the cost of a call decides
    transposed  the full size, read through transposed storage

Inputs are drawn in float64 and rounded, so that a reference sees the very values that the dtype holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch.nn import functional as F

SIZES = ("full", "tenth", "odd-4095", "odd-17", "odd-1", "few-17", "few-1", "transposed")
Inputs = tuple[torch.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """`inputs(rows, columns, transposed, generator)` gives float64 (or integer) tensors."""

    name: str
    fn: Callable[..., object]
    rows: int
    columns: int
    inputs: Callable[..., Inputs]
    backward: bool = False  # `fn` takes gradients: its first input requires one
    share: float | None = None  # least share of copy bandwidth at full size

    def sizes(self) -> list[str]:
        return [s for s in SIZES if not (self.name.startswith("rope") and s.startswith(("odd", "few")))]

    def make(self, size: str, dtype: torch.dtype, seed: int) -> Inputs:
        """Inputs rounded to `dtype`; `reference_of` widens them again."""
        generator = torch.Generator().manual_seed(seed)
        rows, columns = self.rows, self.columns
        if size == "tenth":
            rows = max(1, rows // 10)
        elif size.startswith(("odd", "few")):
            columns = int(size.partition("-")[2])
            rows = max(1, self.rows // 10) * self.columns // columns
            if size.startswith("few"):
                rows = min(rows, self.rows)
            rows = max(17, rows // 2 * 2 + 1)
        made = self.inputs(rows, columns, size == "transposed", generator)
        return tuple(t.to(dtype) if t.is_floating_point() else t for t in made)

    def reference_of(self, inputs: Inputs) -> Inputs:
        return tuple(t.double() if t.is_floating_point() else t for t in inputs)


def matrix(rows: int, columns: int, transposed: bool, generator: torch.Generator) -> torch.Tensor:
    if transposed:
        return torch.randn(columns, rows, generator=generator, dtype=torch.float64).t()
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64)


def pointwise(a, b):
    return torch.tanh(a * 1.5 + b) * torch.sigmoid(b) + torch.sqrt(torch.abs(a))


def residual_rms_norm(x, residual, weight):
    h = x + residual
    wide = h.float() if h.dtype in (torch.bfloat16, torch.float16) else h
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return h, weight * normed.to(h.dtype)


def layer_norm_gelu(x, weight, bias):
    return F.gelu(F.layer_norm(x, (x.shape[-1],), weight, bias))


def scaled_softmax(x):
    return torch.softmax(x * 0.125, -1)


def cross_entropy(x, target):
    return F.cross_entropy(x, target)


def rotate_half(q, k, cos, sin):
    def rotated(x):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    return rotated(q), rotated(k)


def rotate_interleaved(q, k, cos, sin):
    def rotated(x):
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    return rotated(q), rotated(k)


def _two_matrices(rows, columns, transposed, g):
    return matrix(rows, columns, transposed, g), matrix(rows, columns, transposed, g)


def _matrix_with(*vectors: str):
    def inputs(rows, columns, transposed, g):
        x = matrix(rows, columns, transposed, g)
        extra = [matrix(rows, columns, transposed, g)] if "residual" in vectors else []
        extra += [
            torch.randn(columns, generator=g, dtype=torch.float64) * 0.1 + (v == "weight")
            for v in vectors
            if v != "residual"
        ]
        return (x, *extra)

    return inputs


def _logits(rows, columns, transposed, g):
    return matrix(rows, columns, transposed, g), torch.randint(0, columns, (rows,), generator=g)


def _heads(width: int):
    """q and k of 8 heads; `transposed`: a view of [sequence, heads, columns], as projections leave them."""

    def inputs(rows, columns, transposed, g):
        shape = (1, rows, 8, columns) if transposed else (1, 8, rows, columns)
        q, k = (torch.randn(shape, generator=g, dtype=torch.float64) for _ in range(2))
        if transposed:
            q, k = q.transpose(1, 2), k.transpose(1, 2)
        angles = torch.rand(rows, columns // width, generator=g, dtype=torch.float64) * 6
        return q, k, angles.cos(), angles.sin()

    return inputs


ROWS = [
    Row("pointwise", pointwise, 1024, 2048, _two_matrices),
    Row("rms_norm", residual_rms_norm, 2048, 2048, _matrix_with("residual", "weight"), share=0.8),
    Row("layer_norm_gelu", layer_norm_gelu, 2048, 2048, _matrix_with("weight", "bias")),
    Row("softmax", scaled_softmax, 256, 16384, _matrix_with(), share=0.7),
    Row("cross_entropy", cross_entropy, 256, 32000, _logits),
    Row("cross_entropy_backward", cross_entropy, 256, 32000, _logits, backward=True),
    Row("rope_half", rotate_half, 1024, 64, _heads(1), share=0.8),
    Row("rope_interleaved", rotate_interleaved, 1024, 64, _heads(2), share=0.8),
]
