"""Tensors that a graph holds: small ones become literals, others inputs of storage Const with their bytes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch

from . import _C
from .dispatch import WholeGraph
from .emitter import DTYPE_NAMES, KERNEL_DTYPES, Emitter, Val
from .provenance import source_line


class Constants:
    """The constants of one graph: its tensor attributes, and nodes evaluated while importing (`folded`, by name)."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        emitter: Emitter,
        signature: _C.Signature,
        device: torch.device,
        folded: Mapping[str, torch.Tensor],
    ) -> None:
        self.gm, self.emitter, self.signature, self.device = gm, emitter, signature, device
        self._folded = folded
        self._values: dict[str, Val] = {}  # by attribute or node name

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
        return held if isinstance(held, torch.fx.GraphModule) else self._literal(str(node.target), self._tensor(node))

    def is_folded(self, node: torch.fx.Node) -> bool:
        return node.name in self._folded

    def folded(self, node: torch.fx.Node) -> Val:
        return self._literal(node.name, self._folded[node.name])

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
        if key in self._values or (tensor.numel() == 1 and tensor.dtype in KERNEL_DTYPES):
            return
        value = self.emitter.builder.input(DTYPE_NAMES[tensor.dtype], list(tensor.shape), storage="const")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        self.signature.constant(value, data)
        self._values[key] = self.emitter.wrap(value)

    def _literal(self, key: str, tensor: torch.Tensor) -> Val:
        """An embedded array, or a literal for one element."""
        if key not in self._values:
            with torch.utils._python_dispatch._disable_current_modes():
                self._values[key] = self.emitter.full(tensor.detach().item(), tensor.shape, tensor.dtype)
        return self._values[key]
