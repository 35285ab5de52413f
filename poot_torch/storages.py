"""The storage behind an argument, for operators that read or write past what the argument shows of it.

Such a graph takes it as one more argument, a flat tensor, which a call makes of the argument before it enters the
graph: as much of the storage as is read, or where that is no constant, all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from . import _C
from .complex_pairs import Pairs, pair_shape, pair_strides, part_dtype
from .emitter import DTYPE_NAMES, ComplexVal, Emitter, Val
from .graph_facts import view_base

aten = torch.ops.aten
STORAGE_READERS = frozenset((aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default))
Storage = tuple[int, int | None]  # the argument's position, elements or all
_HINT = 1024  # a likely length of one that is taken whole


def _reach(size: Sequence[Any], stride: Sequence[Any], offset: Any) -> int | None:
    """Elements from the storage's start to the end of what the view shows; None where a size is symbolic."""
    if not all(isinstance(v, int) for v in (*size, *stride, offset)):
        return None
    if any(n == 0 for n in size):
        return 0
    return int(offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1)


def _read(node: torch.fx.Node) -> int | None:
    """`_reach` of what the node reads or writes."""
    first = 2 if node.target is aten.as_strided_scatter.default else 1
    size, stride, *rest = (*node.args[first:], *node.kwargs.values())
    operand: Any = node.args[0]
    offset = rest[0] if rest and rest[0] is not None else operand.meta["val"].storage_offset()
    return _reach(size, stride, offset)  # type: ignore[arg-type]


def _wanted(gm: torch.fx.GraphModule, arguments: Collection[torch.fx.Node]) -> dict[torch.fx.Node, int | None]:
    """Elements of the storage behind each argument of which a node wants more than the argument shows, or in another
    order than it does.

    None is given to a graph that returns a view of symbolic sizes: AOTAutograd reads from the result where in the
    argument's memory it begins.
    """
    found: dict[torch.fx.Node, int | None] = {}
    returned = next(n for n in gm.graph.nodes if n.op == "output").all_input_nodes
    for node in gm.graph.nodes:
        if node.target not in STORAGE_READERS:
            continue
        base = view_base(node.args[0])
        if base not in arguments:
            continue
        val = base.meta["val"]
        shown, read, before = _reach(val.shape, val.stride(), val.storage_offset()), _read(node), found.get(base, 0)
        if shown is None or read is None or before is None:
            if any(view_base(r) is base for r in returned):
                return {}
            found[base] = None
        elif read > shown or val.storage_offset() or not val.is_contiguous() or node.args[0] is not base:
            found[base] = max(before, shown, read)
    return found


class Storages:
    """The storages that one graph takes: `args` tells of which arguments."""

    def __init__(self, gm: torch.fx.GraphModule, emitter: Emitter, pairs: Pairs, signature: _C.Signature) -> None:
        self.args: list[Storage] = []
        self._gm, self._emitter, self._pairs, self._signature = gm, emitter, pairs, signature
        self._values: dict[torch.fx.Node, Val | ComplexVal] = {}

    def add(self, arguments: Mapping[torch.fx.Node, int], position: int) -> list[int]:
        """Arguments from `position` on; returns the positions of complex ones. `arguments`: positions of the tensors
        that the graph does not write. Call it before the first equation."""
        complex_args = []
        for node, elems in _wanted(self._gm, arguments).items():
            dtype = node.meta["val"].dtype
            size = self._emitter.builder.add_symbol(0, None, _HINT) if elems is None else elems
            shape: tuple[Any, ...] = (size,)
            strides: tuple[Any, ...] = (1,)
            if dtype.is_complex:
                shape, strides = pair_shape(shape), pair_strides(strides)
                complex_args.append(position + len(self.args))
            value = self._emitter.builder.input(
                DTYPE_NAMES[part_dtype(dtype)], shape, strides=strides, identity=("named", f"{node.name}_storage")
            )
            self._signature.tensor_arg(value)
            self._values[node] = self._emitter.wrap(value)
            self.args.append((arguments[node], elems))
        return complex_args

    def tell(self, node: torch.fx.Node, shown: Val | ComplexVal) -> None:
        """Tells the emitter which storage is behind the node's first operand, whose value is `shown`."""
        base = view_base(node.args[0])  # type: ignore[arg-type]
        if base not in self._values:
            return
        whole = self._values[base]
        if isinstance(shown, ComplexVal):
            if isinstance(whole, Val):
                whole = self._values[base] = self._pairs.split(whole)
            self._emitter.storages.update({shown.re.id: whole.re, shown.im.id: whole.im})
        else:
            assert isinstance(whole, Val)
            self._emitter.storages[shown.id] = whole


def given(run: Callable[..., Any], storages: Sequence[Storage]) -> Callable[..., Any]:
    """`run`, a boxed callable, behind which the arguments' storages are added to the list."""
    if not storages:
        return run

    def flat(t: torch.Tensor, elems: int | None) -> torch.Tensor:
        return t.as_strided((t.untyped_storage().nbytes() // t.itemsize if elems is None else elems,), (1,), 0)

    def with_storages(args: list[Any]) -> Any:
        args.extend(flat(args[position], elems) for position, elems in storages)
        return run(args)

    with_storages._boxed_call = True  # type: ignore[attr-defined]
    return with_storages
