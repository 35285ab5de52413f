"""Calls of PyTorch at a node's place: what a node becomes that no lowering expresses.

A call that library_dispatched.def lists is a library call; any other is a fallback, recorded with its reason.
Operands arrive in the strides that the trace gave them, results must have the traced sizes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from . import _C
from .bodies import CompileBody, bind
from .complex_pairs import Pairs, pair_shape, pair_strides, part_dtype
from .emitter import DTYPE_NAMES, ComplexVal, Emitter, Val
from .provenance import source_line
from .random_layouts import IN_PLACE
from .trees import leaves, mapped

aten = torch.ops.aten
# Operators that no call with operands of the graph's own can make.
_UNTRUSTED = dict.fromkeys(
    (aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default),
    "reads memory that its operand does not show",
)
_DTYPE_NUMBERS = {dtype: i for i, dtype in enumerate(DTYPE_NAMES)}


class WholeGraph(Exception):
    """No part of this graph can be imported; it runs eagerly as a whole."""

    def __init__(self, reason: str, op: str = "", source: str = "") -> None:
        super().__init__(reason)
        self.reason, self.op, self.source = reason, op, source


@dataclasses.dataclass(frozen=True)
class Fallback:
    """An operator that eager's kernel runs."""

    op: str
    dtypes: tuple[str, ...]
    reason: str
    source: str

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        return f"{self.op}({', '.join(self.dtypes)}): {self.reason}{where}"


def draws(target: Any) -> bool:
    """Whether the operator takes numbers from eager's random generator."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


class Dispatched:
    """The prepared calls of one graph."""

    def __init__(self, emitter: Emitter, pairs: Pairs, device: torch.device) -> None:
        self.emitter = emitter
        self.pairs = pairs
        self.device = device
        self.table = _C.OpaqueTable()
        self.fallbacks: list[Fallback] = []

    def call(
        self,
        node: torch.fx.Node,
        target: torch._ops.OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        val: Any,
        reason: str,
        traced: dict[_C.Value, Any],
    ) -> Any:
        """Results shaped as `val`, the fake results. `traced` holds the strides that the trace gave each operand.

        Raises WholeGraph for a call that cannot be prepared.
        """
        source = source_line(node)
        if target in _UNTRUSTED:
            raise WholeGraph(f"{_UNTRUSTED[target]} ({reason})", str(target), source)
        results = self._tensors(val, target, source)
        operands, dtypes, prepared = self._template(args, kwargs)
        try:
            schema = IN_PLACE.get(target, target)._schema
            call = self.table.add(schema.name, schema.overload_name, *prepared, writes_new=target in IN_PLACE)
        except (RuntimeError, TypeError) as e:
            raise WholeGraph(str(e).splitlines()[0], str(target), source) from e
        outs = self._emit(str(target), draws(target), operands, dtypes, results, call, reason, traced, source)
        return self._shaped(outs, val)

    def seed(self) -> Val:
        """A 0-d i64 from eager's generator."""
        kwargs = {"dtype": torch.int64, "device": self.device}
        call = self.table.add("aten::randint", "low", (-(1 << 62), 1 << 62, []), kwargs)
        result = torch.empty((), dtype=torch.int64, device="meta")
        reason = "the seed of the draws in kernels"
        (seed,) = self._emit("aten.randint.low", True, [], [], [result], call, reason, {}, "")
        return seed

    def higher_order(
        self,
        node: torch.fx.Node,
        target: torch._ops.HigherOrderOperator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        val: Any,
        traced: dict[_C.Value, Any],
        compile_body: CompileBody,
    ) -> Any:
        """As `call`, for an operator over graphs, which `compile_body` compiles. Its graphs may draw numbers, so it
        stays at its place among other effects."""
        name, source = f"higher_order.{target.name()}", source_line(node)
        results = self._tensors(val, name, source)
        operands, dtypes, (args, kwargs) = self._template(args, kwargs)
        places, function = bind(target, args, kwargs, compile_body)
        call = self.table.add_function(name, function, places)
        reason = "PyTorch's implementation around compiled graphs"
        outs = self._emit(name, True, operands, dtypes, results, call, reason, traced, source)
        return self._shaped(outs, val)

    def _shaped(self, outs: tuple[Val, ...], val: Any) -> Any:
        """The values in the place of the tensors among fake results."""
        values = iter(outs)

        def result(t: Any) -> Any:
            if not isinstance(t, torch.Tensor):
                return None
            return self.pairs.split(next(values)) if t.is_complex() else next(values)

        return mapped(result, val)

    def _emit(
        self,
        target: str,
        effect: bool,
        operands: list[Val],
        dtypes: list[torch.dtype],
        results: list[torch.Tensor],
        call: int,
        reason: str,
        traced: dict[_C.Value, Any],
        source: str,
    ) -> tuple[Val, ...]:
        """The opaque equation; a fallback is recorded."""
        if not _C.dispatched_reason(target):
            self.fallbacks.append(Fallback(target, tuple(DTYPE_NAMES[d] for d in dtypes), reason, source))
        dims = self.emitter.symbols.dims
        shapes = [pair_shape(dims(t.shape)) if t.is_complex() else dims(t.shape) for t in results]
        layouts = [pair_strides(dims(t.stride())) if t.is_complex() else dims(t.stride()) for t in results]
        strides: dict[str, Any] = {}
        if all(o.id in traced and len(traced[o.id]) == len(o.shape) for o in operands):
            strides["in_strides"] = [d for o in operands for d in traced[o.id]]
        return self.emitter.emit_multi(
            "opaque",
            *operands,
            target=target,
            call=call,
            out_dtypes=[_DTYPE_NUMBERS[part_dtype(t.dtype)] for t in results],
            out_shapes=[d for s in shapes for d in s],
            out_ranks=[len(s) for s in shapes],
            effect=effect,
            reason=reason,
            out_strides=[d for s in layouts for d in s],
            **strides,
        )

    def _tensors(self, val: Any, target: Any, source: str) -> list[torch.Tensor]:
        """The tensors among fake results; raises WholeGraph for results that the IR has no type for."""
        found = []
        for t in leaves(val):
            if t is None:
                continue
            if not isinstance(t, torch.Tensor):
                raise WholeGraph("results that are not tensors", str(target), source)
            if t.layout is not torch.strided or t.dtype not in DTYPE_NAMES or t.device != self.device:
                raise WholeGraph(f"result of {t.dtype}, {t.layout}, {t.device}", str(target), source)
            found.append(t)
        return found

    def _template(self, args: Any, kwargs: Any) -> tuple[list[Val], list[torch.dtype], tuple[Any, Any]]:
        """(operands, their dtypes in PyTorch, arguments with a slot in the place of each)."""
        slots: dict[_C.Value, int] = {}
        operands: list[Val] = []
        dtypes: list[torch.dtype] = []

        def slot(a: Any) -> Any:
            if not isinstance(a, (Val, ComplexVal)):
                return a
            operand = a if isinstance(a, Val) else self.pairs.join(a)
            if operand.id not in slots:
                slots[operand.id] = len(operands)
                operands.append(operand)
                dtypes.append(a.dtype)
            return _C.OperandSlot(slots[operand.id], isinstance(a, ComplexVal))

        prepared = tuple(mapped(slot, a) for a in args), {k: mapped(slot, a) for k, a in kwargs.items()}
        return operands, dtypes, prepared
