"""Tensors that a graph holds: small ones become literals, others inputs of storage Const with their bytes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch

from . import _C
from .complex_pairs import Pairs, part_dtype
from .dispatch import WholeGraph, draws
from .emitter import DTYPE_NAMES, ComplexVal, Emitter, Val
from .provenance import source_line
from .trees import leaves

_LARGEST_FOLDED = 65536  # elements of a constant evaluated while importing


class Folded(Exception):
    """A node turned out to be a constant. Constants are inputs, and inputs precede every equation, so the import
    starts again with this one known."""

    def __init__(self, node: str, tensor: torch.Tensor) -> None:
        super().__init__(node)
        self.node, self.tensor = node, tensor


class Constants:
    """The constants of one graph: its tensor attributes, and nodes evaluated while importing (`folded`, by name)."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        emitter: Emitter,
        pairs: Pairs,
        signature: _C.Signature,
        device: torch.device,
        folded: Mapping[str, torch.Tensor],
    ) -> None:
        self.gm, self.emitter, self.signature, self.device = gm, emitter, signature, device
        self._pairs = pairs
        self._folded = folded
        self._values: dict[str, Val | ComplexVal] = {}  # by attribute or node name

    def embed(self, nodes: list[torch.fx.Node]) -> None:
        """Every constant of more than one element becomes an input; call it before the first equation."""
        with torch.utils._python_dispatch._disable_current_modes():
            for node in nodes:
                if node.op == "get_attr" and isinstance(self._get(node), torch.Tensor):
                    self._embed(str(node.target), self._tensor(node))
                elif node.name in self._folded:
                    self._embed(node.name, self._folded[node.name])

    def attribute(self, node: torch.fx.Node) -> Any:
        """The value of a get_attr node: a Val, or the graph that a higher-order operator takes."""
        held = self._get(node)
        return held if isinstance(held, torch.fx.GraphModule) else self._value(str(node.target), self._tensor(node))

    def is_folded(self, node: torch.fx.Node) -> bool:
        return node.name in self._folded

    def folded(self, node: torch.fx.Node) -> Val | ComplexVal:
        return self._value(node.name, self._folded[node.name])

    def fold(self, node: torch.fx.Node, args: Any, kwargs: Any) -> None:
        """Raises Folded for a small constant expression, such as linspace: a call without tensor operands."""
        target: Any = node.target
        val = node.meta["val"]
        if draws(node.target) or not isinstance(val, torch.Tensor):
            return
        if val.device.type not in ("cpu", self.device.type):
            return
        if val.layout is not torch.strided or val.dtype not in DTYPE_NAMES:
            return
        if not all(isinstance(d, int) for d in val.shape) or val.numel() > _LARGEST_FOLDED:
            return
        if not any(isinstance(a, _C.Dim) for a in leaves((args, kwargs))):
            with torch.utils._python_dispatch._disable_current_modes():
                raise Folded(node.name, target(*args, **kwargs))

    def _get(self, node: torch.fx.Node) -> Any:
        return operator.attrgetter(str(node.target))(self.gm)

    def _tensor(self, node: torch.fx.Node) -> torch.Tensor:
        tensor = self._get(node)
        if not isinstance(tensor, torch.Tensor):
            raise WholeGraph(f"constant of type {type(tensor).__name__}", str(node.target), source_line(node))
        near = tensor.device == self.device or tensor.device.type == "cpu"
        if not near or tensor.layout is not torch.strided or tensor.dtype not in DTYPE_NAMES:
            raise WholeGraph(f"constant on {tensor.device} of {tensor.dtype}", str(node.target), source_line(node))
        return tensor

    def _embed(self, key: str, tensor: torch.Tensor) -> None:
        if key in self._values or tensor.numel() == 1:
            return
        tensor = tensor.detach().cpu().resolve_conj()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        value = self.emitter.builder.input(DTYPE_NAMES[tensor.dtype], list(tensor.shape), storage="const")
        flat = tensor.contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        self.signature.constant(value, data)
        self._values[key] = self.emitter.wrap(value)

    def _value(self, key: str, tensor: torch.Tensor) -> Val | ComplexVal:
        """An embedded array, or a literal for one element."""
        found = self._values.get(key)
        if found is None:
            found = self._literal(tensor)
        elif tensor.is_complex() and isinstance(found, Val):
            found = self._pairs.split(found)
        self._values[key] = found
        return found

    def _literal(self, tensor: torch.Tensor) -> Val | ComplexVal:
        with torch.utils._python_dispatch._disable_current_modes():
            number = tensor.detach().item()
        if not tensor.is_complex():
            return self.emitter.full(number, tensor.shape, tensor.dtype)
        dtype = part_dtype(tensor.dtype)
        re, im = (self.emitter.full(part, tensor.shape, dtype) for part in (number.real, number.imag))
        return ComplexVal(re, im)
