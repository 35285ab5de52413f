"""An ATen FX graph becomes a poot graph and the signature of its callable.

Each node is lowered by the function registered for its overload; what a lowering yields must have
the dtype and shape of the node's fake tensor, or it is refused. A node without a usable lowering
becomes an `opaque` equation: a prepared call of the dispatcher at the node's place.
"""

from __future__ import annotations

import collections
import dataclasses
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from . import _C, complex_views, size_numbers
from .bodies import CompileBody, describe_draws
from .complex_pairs import Pairs, pair_shape, pair_strides, part_dtype
from .constants import Constants, Folded
from .dispatch import Dispatched, Fallback, WholeGraph, draws
from .emitter import DTYPE_NAMES, ComplexVal, Declined, Emitter, Val
from .graph_facts import ASSERTIONS, CHECKS, device_of, is_host_number, is_token, view_base
from .lowerings import REFUSED, complex_numbers, registry
from .lowerings.random import DRAWN
from .provenance import source_line
from .result_check import mismatch, read_results, refusal
from .storages import STORAGE_READERS, Storage, Storages
from .symbols import Symbols, Unbindable
from .trees import leaves, mapped

aten = torch.ops.aten


@dataclasses.dataclass
class Imported:
    graph: _C.Graph
    signature: _C.Signature
    calls: _C.OpaqueTable
    fallbacks: list[Fallback]
    device: torch.device
    complex_args: list[int]
    complex_results: list[int]
    numbers: list[int]  # positions of floating-point numbers, which enter as 0-d f64
    storages: list[Storage]  # arguments behind the graph's own


def import_graph(
    gm: torch.fx.GraphModule,
    name: str,
    weights: Mapping[int, str],
    donated: Collection[int] = (),
    *,
    compile_body: CompileBody,
    fast_random: bool = False,
    training: bool = False,
    layouts: Mapping[torch.fx.Node, Sequence[int]] | None = None,
) -> Imported:
    """`weights` maps argument positions to the parameter's path; `donated` are positions of arguments that nobody
    reads after the call, whose memory the graph may take over; `compile_body` compiles the graphs that higher-order
    operators hold; `fast_random` draws in kernels; `training`: the graph has gradients, or is that of one; `layouts`:
    strides of results other than eager's.

    Raises WholeGraph, with the graph untouched.
    """
    describe_draws(gm)
    folded: dict[str, torch.Tensor] = {}
    while True:
        try:
            imported = _Importer(gm, name, weights, folded, compile_body, fast_random, training, layouts or {}).run()
        except Folded as found:
            folded[found.node] = found.tensor
        else:
            imported.signature.donated = sorted(donated)
            return imported


class _Importer:
    def __init__(
        self,
        gm: torch.fx.GraphModule,
        name: str,
        weights: Mapping[int, str],
        folded: Mapping[str, torch.Tensor],
        compile_body: CompileBody,
        fast_random: bool,
        training: bool,
        layouts: Mapping[torch.fx.Node, Sequence[int]],
    ) -> None:
        self.gm = gm
        self.layouts = layouts
        self.weights = weights
        self.builder = _C.Builder(name)
        self.symbols = Symbols(self.builder)
        self.emitter = Emitter(self.builder, self.symbols, training)
        self.pairs = Pairs(self.emitter)
        self.signature = _C.Signature()
        self.device = device_of(gm)
        self.dispatched = Dispatched(self.emitter, self.pairs, self.device)
        self.compile_body = compile_body
        self.emitter.make_seed = self.dispatched.seed
        self.complex_args: list[int] = []  # by position
        self.complex_results: list[int] = []
        self.numbers: list[int] = []
        self.env: dict[torch.fx.Node, Any] = {}
        self.args: dict[torch.fx.Node, int] = {}  # positions of tensor arguments
        self.inputs: dict[torch.fx.Node, _C.Value] = {}  # their values on entry
        self.storages = Storages(gm, self.emitter, self.pairs, self.signature)
        self.writes: dict[torch.fx.Node, Val | ComplexVal] = {}  # argument -> what its buffer becomes
        self.constants = Constants(gm, self.emitter, self.pairs, self.signature, self.device, folded)
        self.lowerings = {**registry(), **DRAWN} if fast_random else registry()

    def run(self) -> Imported:
        nodes = list(self.gm.graph.nodes)
        inputs = [n for n in nodes if n.op == "placeholder"]
        try:
            self._bind_symbols(inputs)
            written = {n.args[0] for n in nodes if n.target is aten.copy_.default}
            for position, node in enumerate(inputs):
                self._argument(position, node, node in written)
            self.complex_args += self.storages.add(
                {n: i for n, i in self.args.items() if n not in written}, len(inputs)
            )
            self.constants.embed(nodes)
            for node in nodes:
                if node.op == "call_function":
                    self._call(node)
                elif node.op == "output":
                    self._outputs(node)
        except Unbindable as e:
            raise WholeGraph(str(e)) from e
        return Imported(
            self.builder.finish(),
            self.signature,
            self.dispatched.table,
            self.dispatched.fallbacks,
            self.device,
            self.complex_args,
            self.complex_results,
            self.numbers,
            self.storages.args,
        )

    # ---- arguments

    def _bind_symbols(self, inputs: list[torch.fx.Node]) -> None:
        values = [n.meta.get("val") for n in inputs]
        ints = [v for v in values if isinstance(v, torch.SymInt)]
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        self.symbols.bind_sizes(ints, compound=False)
        for compound in (False, True):
            for t in tensors:
                self.symbols.bind_sizes(t.shape, compound=compound)
            self.symbols.bind_sizes(ints, compound=compound)

    def _argument(self, position: int, node: torch.fx.Node, written: bool) -> None:
        val = None if is_token(node) else node.meta.get("val")
        if isinstance(val, torch.Tensor):
            self._tensor_argument(position, node, val, written)
        elif isinstance(val, (torch.SymInt, int)) and not isinstance(val, bool):
            dim = self.symbols.dim(val)
            self.signature.int_arg(dim)
            self.env[node] = dim
        elif isinstance(val, torch.SymFloat):
            value = self.builder.input("f64", (), strides=(), identity=("named", node.name))
            self.signature.tensor_arg(value)
            self.env[node] = size_numbers.SizeNumber(self.emitter.wrap(value))
            self.numbers.append(position)
        elif val is None:
            self.signature.none_arg()
            self.env[node] = None
        else:
            raise WholeGraph(f"argument {node.name} of type {type(val).__name__}")

    def _tensor_argument(self, position: int, node: torch.fx.Node, val: torch.Tensor, written: bool) -> None:
        if val.device != self.device and not is_host_number(val):
            raise WholeGraph(f"argument {node.name} on {val.device} in a graph on {self.device}")
        if written and val.device != self.device:
            raise WholeGraph(f"write to {node.name}, a number on {val.device}")
        if val.layout is not torch.strided or val.dtype not in DTYPE_NAMES or val.is_neg():
            raise WholeGraph(f"argument {node.name} of {val.dtype}, {val.layout}")
        if val.is_conj() and written:
            raise WholeGraph(f"write to {node.name}, a conjugate view")
        path = self.weights.get(position)
        shape, strides = self.symbols.dims(val.shape), self.symbols.dims(val.stride())
        if val.is_complex():
            shape, strides = pair_shape(shape), pair_strides(strides)
            self.complex_args.append(position)
        value = self.builder.input(
            DTYPE_NAMES[part_dtype(val.dtype)],
            shape,
            strides=strides,
            storage="state" if written else "device",
            identity=("weight", path) if path and not written else ("named", node.name),
        )
        self.signature.tensor_arg(value)
        whole = self.emitter.wrap(value)
        self.env[node] = whole  # split into parts when every input is there
        self.args[node], self.inputs[node] = position, value

    # ---- nodes

    def _value(self, node: torch.fx.Node) -> Any:
        if node.op == "get_attr":
            return self.constants.attribute(node)
        value = self.env[node]
        if isinstance(value, Unbindable):
            raise value
        if node in self.args and isinstance(value, Val) and node.meta["val"].is_complex():
            value = self.env[node] = self.pairs.split(value)
        return value

    def _call(self, node: torch.fx.Node) -> None:
        target: Any = node.target
        source: Any = node.args[0] if node.args else None
        val = node.meta.get("val")
        if target in CHECKS:
            return
        if target is operator.getitem:
            if not node.users:
                return
            self.env[node] = self._value(source)[node.args[1]]
        elif isinstance(val, (torch.SymInt, int)) and not isinstance(val, bool):
            try:
                self.env[node] = self.symbols.dim(val)
            except Unbindable as e:
                self.env[node] = e  # matters only if a size depends on it
        elif isinstance(val, torch.SymFloat):
            self._begin(node)
            self.env[node] = size_numbers.computed(self.emitter, node, self._value)
        elif isinstance(val, (torch.SymBool, bool, float)):
            self.env[node] = Unbindable(f"{target} of a symbolic size")
        elif target is torch.ops.higher_order.with_effects:
            self._ordered(node)
        elif isinstance(target, torch._ops.HigherOrderOperator) and val is not None:
            self._higher_order(node)
        elif target in ASSERTIONS:
            self._begin(node)
            args, kwargs = self._arguments(node)
            self._dispatch(node, target, args, kwargs, [], "an assertion on data")
        elif not isinstance(target, torch._ops.OpOverload) or val is None:
            raise WholeGraph("not an operator with tensor results", str(target), source_line(node))
        elif target is aten.copy_.default:
            self._write(node)
        elif target._schema.is_mutable:
            raise WholeGraph("writes to its operands", str(target), source_line(node))
        else:
            self._lower(node)

    def _begin(self, node: torch.fx.Node) -> None:
        self.builder.set_origins([self.builder.origin(node.name, source_line(node))])
        self.emitter.meta = node.meta.get("val")
        self.emitter.args_meta = [
            n.meta.get("val") if n.op != "get_attr" else operator.attrgetter(str(n.target))(self.gm)
            for n in node.all_input_nodes
        ]

    def _write(self, node: torch.fx.Node) -> None:
        destination, source = node.args[0], node.args[1]
        if not isinstance(destination, torch.fx.Node) or destination not in self.args:
            raise WholeGraph("writes to a tensor that is not an argument", str(node.target), source_line(node))
        self._begin(node)
        old: Val | ComplexVal = self._value(destination)
        value = self._value(source) if isinstance(source, torch.fx.Node) else source
        new = complex_numbers.written(self.emitter, value, old)
        self.writes[destination] = new
        self.env[destination] = self.env[node] = new

    def _loaded(self, a: Any) -> Any:
        if isinstance(a, torch.fx.Node):
            return self._value(a)
        return self.symbols.dim(a) if isinstance(a, torch.SymInt) else a

    def _arguments(self, node: torch.fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def load(a: Any) -> Any:
            value = self._loaded(a)
            if isinstance(value, size_numbers.SizeNumber):
                return size_numbers.entering(self.emitter, value, node.target, node.meta["val"])
            return value

        return tuple(mapped(load, a) for a in node.args), {k: mapped(load, a) for k, a in node.kwargs.items()}

    def _lower(self, node: torch.fx.Node) -> None:
        self._begin(node)
        if self.constants.is_folded(node):
            self.env[node] = self.constants.folded(node)
            return
        if node.target in STORAGE_READERS:
            self.storages.tell(node, self._value(node.args[0]))  # type: ignore[arg-type]
        args, kwargs = self._arguments(node)
        operands = [a for a in leaves((args, kwargs)) if isinstance(a, (Val, ComplexVal))]
        lowering = complex_numbers.choose(node.target, operands, node.meta["val"], self.lowerings)
        reason = self._unsuitable(node, lowering)
        if reason is None:
            try:
                result = lowering(self.emitter, *args, **kwargs)
                reason = mismatch(result, read_results(node), self.symbols)
            except (Declined, Unbindable, RuntimeError, TypeError) as e:
                reason = refusal(e, (args, kwargs))
        if reason is None:
            self.env[node] = result
        else:
            if not operands:
                self.constants.fold(node, args, kwargs)
            target: Any = node.target
            self.env[node] = self._dispatch(node, target, args, kwargs, node.meta["val"], reason)

    def _unsuitable(self, node: torch.fx.Node, lowering: Any) -> str | None:
        if lowering is None:
            if node.target in self.lowerings:
                return "no lowering of complex numbers"
            return "draws from eager's random generator" if draws(node.target) else "no lowering"
        results = [t for t in leaves(read_results(node)) if isinstance(t, torch.Tensor)]
        for t in results:
            if t.device != self.device and t.ndim != 0:
                raise WholeGraph(f"a tensor on {t.device}", str(node.target), source_line(node))
        unknown = next((f"no kernels for {t.dtype}" for t in results if t.dtype not in DTYPE_NAMES), None)
        return unknown or (REFUSED[node.target](node) if node.target in REFUSED else None)

    # ---- calls of the dispatcher

    def _dispatch(
        self, node: torch.fx.Node, target: torch._ops.OpOverload, args: Any, kwargs: Any, val: Any, reason: str
    ) -> Any:
        return self.dispatched.call(node, target, args, kwargs, val, reason, self._traced(node))

    def _traced(self, node: torch.fx.Node) -> dict[_C.Value, Any]:
        """The strides that eager gives each operand."""
        traced: dict[_C.Value, Any] = {}
        for source in node.all_input_nodes:
            value = self.env.get(source)
            if isinstance(value, (Val, ComplexVal)):
                strides = self.symbols.dims(source.meta["val"].stride())
                if isinstance(value, ComplexVal):
                    value, strides = self.pairs.join(value), pair_strides(strides)
                traced.setdefault(value.id, strides)
        return traced

    def _ordered(self, node: torch.fx.Node) -> None:
        """with_effects(token, operator, …): the operator at its place; a token is None when the graph runs."""
        args, kwargs = self._arguments(node)
        _, target, *rest = args
        if not isinstance(target, torch._ops.OpOverload):
            raise WholeGraph("an ordered effect that is no operator", str(target), source_line(node))
        self._begin(node)
        _, *results = node.meta["val"]
        found = self._dispatch(node, target, tuple(rest), kwargs, results, "ordered effect")
        self.env[node] = (None, *found)

    def _higher_order(self, node: torch.fx.Node) -> None:
        """An operator over graphs: PyTorch runs it at its place, around the compiled graphs."""
        self._begin(node)
        args, kwargs = self._arguments(node)
        target: Any = node.target
        self.env[node] = self.dispatched.higher_order(
            node, target, args, kwargs, node.meta["val"], self._traced(node), self.compile_body
        )

    # ---- results

    def _outputs(self, node: torch.fx.Node) -> None:
        results: Any = node.args[0]
        outputs = results if isinstance(results, (list, tuple)) else (results,)
        count = 0
        bases: dict[torch.fx.Node, int] = {}
        sharers = collections.Counter(view_base(o) for o in outputs if isinstance(o, torch.fx.Node))
        for position, out in enumerate(outputs):
            value = self._value(out) if isinstance(out, torch.fx.Node) else out
            if value is None:
                self.signature.none_result()
            elif isinstance(value, (Val, ComplexVal)):
                if out not in self.args and out.meta["val"].device != self.device:
                    raise WholeGraph(f"result on {out.meta['val'].device} of a graph on {self.device}")
                if out in self.args:
                    self.signature.arg_result(self.args[out])
                    continue
                strides = self._result_strides(out)
                base = view_base(out)
                if isinstance(value, ComplexVal):
                    strides = None if strides is None else pair_strides(strides)
                    value = self._joined(out, base, value, base in self.args or sharers[base] > 1)
                    self.complex_results.append(position)
                self.builder.output(value.id, strides=strides)
                self.signature.tensor_result(count, bases.setdefault(base, len(bases)), base in self.args)
                count += 1
            elif isinstance(value, (int, torch.SymInt, _C.Dim)) and not isinstance(value, bool):
                self.signature.int_result(self.symbols.dim(value))
            else:
                raise WholeGraph(f"result of type {type(value).__name__}")
        for argument, value in self.writes.items():
            whole = self.pairs.join(value) if isinstance(value, ComplexVal) else value
            self.builder.output(whole.id, "state", self.inputs[argument])

    def _result_strides(self, node: torch.fx.Node) -> Any:
        if node.op == "get_attr":
            return None
        return self.symbols.dims(self.layouts.get(node) or node.meta["val"].stride())

    def _joined(self, node: torch.fx.Node, base: torch.fx.Node, value: ComplexVal, shares: bool) -> Val:
        """A complex result as pairs; where it shares memory, as a view of its base's."""
        whole = self._value(base) if shares and node is not base and base not in self.writes else None
        found = None
        if isinstance(whole, ComplexVal):
            pairs = self.pairs.join(whole)
            found = complex_views.shown(self.emitter, node, base, pairs, self.lowerings, self._loaded)
        return found or self.pairs.join(value)
