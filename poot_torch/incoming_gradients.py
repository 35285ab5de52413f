"""What a backward is given that its trace did not expect: incoming gradients of other strides, or none at all.

AOTAutograd traces the backward for gradients in the strides of the results, and copies what comes in others into
these: the gradients that it returns are laid out as if the expected ones had come. Eager's follow those that come; how,
Dynamo's graph tells, run forward and backward on fake tensors. Where none comes for a result that nothing reads,
AOTAutograd takes zeros, and returns zeros for what only that result depends on, where eager has no gradient.
"""

from __future__ import annotations

import copy
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import unset_fake_temporarily as _no_fakes
from torch.utils._python_dispatch import TorchDispatchMode

from . import absent_gradients
from .own_decompositions import layer_norm_backward

log = logging.getLogger("poot_torch")
Strides = tuple[int, ...]


class _Noted(threading.local):
    """Of the backward in progress, by position of the incoming gradient."""

    def __init__(self) -> None:
        self.others: dict[int, Strides] = {}  # strides that are not the expected ones
        self.absent: frozenset[int] = frozenset()

    def compared(self, position: int, strides: Strides, equal: bool) -> None:
        if equal:
            self.others.pop(position, None)
        else:
            self.others[position] = strides

    def take(self) -> tuple[dict[int, Strides], frozenset[int]]:
        found = self.others, self.absent
        self.others, self.absent = {}, frozenset()
        return found


class _Compared(tuple):  # type: ignore[type-arg]
    """Expected strides that tell what they are compared with."""

    seen: Callable[[Strides, bool], None]

    def __eq__(self, other: object) -> bool:
        equal = tuple.__eq__(self, other) is True
        if isinstance(other, tuple):
            self.seen(other, equal)
        return equal

    __hash__ = tuple.__hash__


def _specimen(t: Any) -> Any:
    """What a fake tensor like `t` is made of; None for what cannot be told from sizes and strides that are numbers."""
    if not isinstance(t, torch.Tensor) or t.layout is not torch.strided or t._has_symbolic_sizes_strides:
        return None
    return tuple(t.shape), tuple(t.stride()), t.dtype, t.device, t.requires_grad


class IncomingGradients:
    """Of one graph of Dynamo's."""

    def __init__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        self._gm = gm
        self._inputs = [_specimen(t) for t in example_inputs]
        self._noted = _Noted()
        self._meta: Any = None  # AOTAutograd's of this graph
        self._expected: list[tuple[Sequence[int], Strides, torch.dtype, torch.device]] = []
        self._results: list[Any] = []  # descriptors of what each incoming gradient is of
        self._arguments: list[int] = []  # where AOTAutograd is given each
        self._strides: dict[Any, dict[int | None, Strides]] = {}  # of gradients, by what came

    def watch(self) -> None:
        """Call it while the forward is compiled: AOTAutograd makes the backward's entry afterwards."""
        context = torch._guards.TracingContext.try_get()
        meta: Any = context.fw_metadata if context is not None else None
        formats = [getattr(m, "memory_format", None) for m in getattr(meta, "subclass_tangent_meta", None) or ()]
        strides = [getattr(f, "stride", None) for f in formats]
        if not all(isinstance(s, tuple) for s in strides) or None in self._inputs:
            return
        self._meta, traced = meta, meta.traced_tangents
        self._expected = [(tuple(t.shape), tuple(t.stride()), t.dtype, t.device) for t in traced]
        self._results = [getattr(d, "output", None) for d in meta.traced_tangents_descs]
        first = meta.num_mutated_inp_runtime_indices
        places = [getattr(r, "idx", None) for r in self._results]
        self._arguments = [first + p for p in places if p is not None]
        for position, form in enumerate(formats):
            watched = _Compared(form.stride)  # type: ignore[union-attr]
            watched.seen = functools.partial(self._noted.compared, position)  # type: ignore[misc]
            form.stride = watched  # type: ignore[union-attr]

    def followed(self, gm: torch.fx.GraphModule, compile_graph: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled backward graph `gm`, whose results are laid out as eager's, and None where eager's are.

        One is compiled for each set of absent gradients that is met, now for that of the backward in progress.
        """
        if not self._expected:
            return compile_graph(gm)
        context, compile_context = torch._guards.TracingContext.try_get(), torch._guards.CompileContext.try_get()
        origins = _origins(gm)
        compiled: dict[frozenset[int], Callable[..., Any]] = {}

        def without(absent: frozenset[int]) -> Callable[..., Any]:
            if absent not in compiled:
                with torch._guards.tracing(context), torch._guards.compile_context(compile_context), _no_fakes():
                    graph = gm
                    if absent:
                        graph = copy.deepcopy(gm)
                        absent_gradients.remove(graph, absent)
                    compiled[absent] = compile_graph(graph)
            return compiled[absent]

        def follow(args: list[Any]) -> Any:
            others, absent = self._noted.take()
            results = without(absent)(args)
            if not others:
                return results
            strides = self._of_gradients(others, absent)
            return [_restrided(g, strides.get(i)) for g, i in zip(results, origins, strict=True)]

        without(self._noted.absent)
        follow._boxed_call = True  # type: ignore[attr-defined]
        return follow

    def told(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """`compiled`, the compiled graph of Dynamo's, whose backward learns which incoming gradients there are."""
        if len(self._expected) < 2 or len(self._arguments) < len(self._expected):
            return compiled  # one that does not come alone would not run the backward

        @functools.wraps(compiled)
        def run(*args: Any) -> Any:
            results = compiled(*args)
            if torch.is_grad_enabled():
                self._ask(results)
            return results

        return run

    def _ask(self, results: Sequence[Any]) -> None:
        """Lets autograd pass None on instead of zeros, which the backward's entry notes."""
        for node in _autograd_nodes(results):
            function = getattr(node, "_forward_cls", None)
            enter = getattr(function, "_bw_prologue_fn", None)
            if enter is None or getattr(function, "metadata", None) is not self._meta:
                continue  # a result may be an argument, which another graph made
            if not getattr(enter, "tells_absent", False):
                function._bw_prologue_fn = self._entry(enter)  # type: ignore[union-attr]
            node.materialize_grads = False
            return

    def _entry(self, enter: Callable[..., Any]) -> Any:
        def tells_absent(saved: Any, numbers: Any, objects: Any, gradients: Any) -> Any:
            given = list(gradients)
            self._noted.take()
            absent = frozenset(i for i, place in enumerate(self._arguments) if given[place] is None)
            if torch._dynamo.compiled_autograd.in_compiled_autograd_region:  # which runs the graph as it was traced
                for i in absent:
                    given[self._arguments[i]] = _made(*self._expected[i]).zero_()
            else:
                self._noted.absent = absent
            if isinstance(gradients, list):
                gradients.clear()
            return enter(saved, numbers, objects, given)

        tells_absent.tells_absent = True  # type: ignore[attr-defined]
        return staticmethod(tells_absent)

    def _of_gradients(self, others: dict[int, Strides], absent: frozenset[int]) -> dict[int | None, Strides]:
        """By position of the input."""
        key = tuple(sorted(others.items())), absent
        if key not in self._strides:
            try:
                self._strides[key] = self._propagated(others, absent)
            except Exception as e:  # what Dynamo's graph calls may be anything; the gradients are right as they are
                log.debug("strides of gradients are those of the trace: %s", e)
                self._strides[key] = {}
        return self._strides[key]

    def _incoming(self, position: int, others: dict[int, Strides]) -> torch.Tensor:
        shape, strides, dtype, device = self._expected[position]
        return _made(shape, others.get(position, strides), dtype, device)

    def _propagated(self, others: dict[int, Strides], absent: frozenset[int]) -> dict[int | None, Strides]:
        state = torch.get_rng_state()
        try:
            with FakeTensorMode(allow_non_fake_inputs=True), _EagerLayouts(), torch.enable_grad():
                inputs = [_made(*specimen) for specimen in self._inputs]
                results = torch.fx.Interpreter(self._gm).run(*inputs)
                wanted = [i for i, t in enumerate(inputs) if t.requires_grad]
                given = [i for i in range(len(self._expected)) if i not in absent]
                found = torch.autograd.grad(
                    [_result(results, self._results[i]) for i in given],
                    [inputs[i] for i in wanted],
                    [self._incoming(i, others) for i in given],
                    allow_unused=True,
                )
        finally:
            torch.set_rng_state(state)
        return {i: tuple(g.stride()) for i, g in zip(wanted, found, strict=True) if g is not None}


class _EagerLayouts(TorchDispatchMode):
    """Operators whose fake results PyTorch lays out in another way than eager does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.native_layer_norm_backward.default:
            func = layer_norm_backward
        return func(*args, **(kwargs or {}))


def _made(
    shape: Sequence[int], strides: Strides, dtype: torch.dtype, device: torch.device, requires_grad: bool = False
) -> torch.Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device=device).requires_grad_(requires_grad)


def _result(results: Sequence[Any], descriptor: Any) -> torch.Tensor:
    """The result, or base of one, that an incoming gradient is of."""
    base = getattr(descriptor, "base_of", None)
    return results[descriptor.idx] if base is None else results[base.idx]._base


def _autograd_nodes(results: Sequence[Any]) -> Iterator[Any]:
    """Nodes that the results come from, and those before views."""
    for t in results:
        node = getattr(t, "grad_fn", None)
        if node is not None:
            yield node
            yield from (before for before, _ in node.next_functions[:1] if before is not None)


def _origins(gm: torch.fx.GraphModule) -> list[int | None]:
    """Positions of the inputs that the results of a backward graph are gradients of."""
    output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    return [getattr(getattr(d, "grad_of", None), "idx", None) for d in output.meta.get("desc") or ()]


def _restrided(gradient: Any, strides: Strides | None) -> Any:
    if strides is None or not isinstance(gradient, torch.Tensor) or gradient.stride() == strides:
        return gradient
    shape = gradient.shape
    for axis, stride in enumerate(strides):
        if stride == 0 and shape[axis] > 1:  # one number, seen several times
            gradient = gradient.narrow(axis, 0, 1)
    new = torch.empty_strided(gradient.shape, strides, dtype=gradient.dtype, device=gradient.device)
    return new.copy_(gradient).expand(shape)
