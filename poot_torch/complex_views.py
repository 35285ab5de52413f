"""Complex results that show one another's memory, as views of the pairs that this memory holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .complex_pairs import pair_shape
from .emitter import Emitter, Val
from .trees import mapped

aten = torch.ops.aten
# Views that treat the axis of parts, behind all others, as they would any.
_VIEWS = frozenset(
    (
        *("view", "_unsafe_view", "_reshape_alias", "squeeze", "unsqueeze", "expand", "alias", "detach"),
        *("slice", "select", "transpose", "permute", "t", "unbind", "split", "split_with_sizes"),
        *("unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"),
    )
)


class _Pair:
    """The fake result that the tensor of pairs has."""

    def __init__(self, whole: torch.Tensor) -> None:
        self.shape = pair_shape(whole.shape)


def shown(
    e: Emitter,
    node: torch.fx.Node,
    base: torch.fx.Node,
    pairs: Val,
    lowerings: Mapping[Any, Callable[..., Any]],
    argument: Callable[[Any], Any],
) -> Any:
    """What a node shows of `base`, whose `pairs` are given, as pairs; `argument` gives the value of a number. None
    where a view on the way is none of these."""
    if node is base:
        return pairs
    source: Any = node.args[0]
    whole = shown(e, source, base, pairs, lowerings, argument)
    if whole is None or node.target is operator.getitem:
        return whole and whole[node.args[1]]
    target: Any = node.target
    if target._schema.name.removeprefix("aten::") not in _VIEWS or node.kwargs:
        return None
    ndim = whole.ndim - 1 + (target is aten.unsqueeze.default)
    names = [a.name for a in target._schema.arguments]
    given: list[Any] = [
        a % ndim if name.startswith("dim") and isinstance(a, int) and ndim else mapped(argument, a)
        for name, a in zip(names[1:], node.args[1:], strict=False)
    ]
    if target is aten.permute.default:
        given = [[*(d % ndim for d in given[0]), ndim]]
    if target is aten.t.default:
        return e.transpose(whole, [*range(ndim - 1, -1, -1), ndim])
    val = node.meta["val"]
    e.meta = [_Pair(t) for t in val] if isinstance(val, (list, tuple)) else _Pair(val)
    return lowerings[target](e, whole, *given)
