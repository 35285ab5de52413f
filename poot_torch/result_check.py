"""Whether a lowering yields what the trace says."""

from __future__ import annotations

from typing import Any

import torch

from .emitter import DTYPE_NAMES
from .symbols import Symbols


def mismatch(result: Any, val: Any, symbols: Symbols) -> str | None:
    """Why lowered results are not of the dtypes and shapes of the fake results `val`, or None."""
    got, want = (result, val) if isinstance(val, (list, tuple)) else ((result,), (val,))
    if len(got) != len(want):
        return f"lowering yields {len(got)} results of {len(want)}"
    for g, w in zip(got, want, strict=True):
        if isinstance(w, torch.Tensor):
            shape = symbols.dims(w.shape)
            if g.dtype != w.dtype or g.shape != shape:
                return f"lowering yields {_text(g.dtype, g.shape)}, eager {_text(w.dtype, shape)}"
    return None


def _text(dtype: torch.dtype, shape: tuple[Any, ...]) -> str:
    return f"{DTYPE_NAMES[dtype]}[{', '.join(str(d) for d in shape)}]"
