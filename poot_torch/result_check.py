"""Whether a lowering yields what the trace says."""

from __future__ import annotations

import operator
from typing import Any

import torch

from . import _C
from .emitter import DTYPE_NAMES, Declined
from .errors import InvalidGraph, PootError
from .lowerings import FIRST_RESULT
from .symbols import Symbols, Unbindable
from .trees import leaves


def read_results(node: torch.fx.Node) -> Any:
    """The fake results of the node, as far as anything reads them."""
    val = node.meta["val"]
    reads = [u for u in node.users if u.target is not operator.getitem or u.users]
    if node.target in FIRST_RESULT and all(u.target is operator.getitem and u.args[1] == 0 for u in reads):
        return val[:1]
    return val


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


def refusal(e: Exception, arguments: Any) -> str:
    """Why a lowering gave up on these arguments; raises what is an error of the lowering itself."""
    if isinstance(e, Declined):
        return str(e)
    if isinstance(e, InvalidGraph):
        return f"lowering refused: {e}"
    if isinstance(e, Unbindable):
        return f"size: {e}"
    if isinstance(e, PootError) or not any(isinstance(a, _C.Dim) for a in leaves(arguments)):
        raise e
    return "a size in the place of a number"
