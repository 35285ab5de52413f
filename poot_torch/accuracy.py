"""Error of a result against a float64 reference, and the rule by which it is judged."""

from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class ErrorPair:
    """Root mean square and maximum of |value - reference|, and the reference's largest magnitude (its scale)."""

    rms: float
    max: float
    scale: float

    def within(self, eager: ErrorPair, dtype: torch.dtype) -> bool:
        """At most 1.5 times eager's error, or 2 ulp of `dtype` at the tensor's scale, in RMS and in maximum."""
        floor = 2 * torch.finfo(dtype).eps * self.scale
        return self.rms <= max(1.5 * eager.rms, floor) and self.max <= max(1.5 * eager.max, floor)


def error_against(reference: torch.Tensor, value: torch.Tensor) -> ErrorPair:
    """`reference` is float64 of the same shape. A NaN or infinity that the reference lacks counts as infinite error."""
    wide = value.detach().double()
    if wide.shape != reference.shape:
        raise ValueError(f"shape {tuple(wide.shape)} against a reference of {tuple(reference.shape)}")
    same = (wide == reference) | (wide.isnan() & reference.isnan())
    difference = torch.where(same, 0.0, (wide - reference).abs()).nan_to_num(nan=float("inf"))
    finite = reference[reference.isfinite()]
    return ErrorPair(
        rms=float(difference.pow(2).mean().sqrt()) if difference.numel() else 0.0,
        max=float(difference.max()) if difference.numel() else 0.0,
        scale=float(finite.abs().max()) if finite.numel() else 0.0,
    )
