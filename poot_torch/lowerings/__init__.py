"""Lowerings from ATen overloads to equations, in files by family.

`@lower(aten.add.Tensor, …)` registers a function `f(e: Emitter, *args, **kwargs)`, which gets the
node's arguments with tensors as `Val` and symbolic sizes as `Dim`, and returns a `Val` (or a tuple
of them for several results). It raises `Declined(reason)` for a call it cannot express.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

_FAMILIES = (
    "predicates",
    "pointwise",
    "division",
    "elementary",
    "special",
    "bessel",
    "error_functions",
    "copies",
    "activations",
    "views",
    "creation",
    "reductions",
    "scans",
    "contractions",
    "distances",
    "normalization",
    "indexing",
    "scatter",
    "convolution",
    "pooling",
    "attention",
)
_REGISTRY: dict[Any, Callable[..., Any]] = {}
FIRST_RESULT: set[Any] = set()
"""Overloads whose lowering yields only the first result, and stands where nothing reads the others."""
REFUSED: dict[Any, Callable[[torch.fx.Node], str | None]] = {}
"""Why eager refuses a node that its meta function accepts, if it does: the call is left to eager, for its exception."""


def lower(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the function for each overload; registering one twice is an error."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            if overload in _REGISTRY:
                raise RuntimeError(f"two lowerings for {overload}")
            _REGISTRY[overload] = fn
        return fn

    return register


@functools.cache
def registry() -> dict[Any, Callable[..., Any]]:
    """Every lowering, by overload."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return _REGISTRY
