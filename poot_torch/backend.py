"""The entry point: what `torch.compile(model, backend="poot")` calls for each graph of Dynamo's.

AOTAutograd functionalizes, decomposes and partitions; each resulting ATen graph is imported,
compiled and replayed through one boxed callable.
"""

from __future__ import annotations

import collections
import functools
import logging
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch import partitioners
from torch.multiprocessing.reductions import StorageWeakRef

from . import (
    _C,
    decompositions,
    foreach,
    higher_order,
    incoming_gradients,
    number_inputs,
    replacements,
    report,
    saved_layouts,
    segments,
    size_numbers,
    softmax_parts,
    specializations,
    storages,
    unused_draws,
    versions,
)
from . import options as _options
from .dispatch import Fallback, WholeGraph
from .errors import PootError, StrictError
from .importer import Imported, import_graph
from .provenance import input_path

log = logging.getLogger("poot_torch")
_C.warm_up()


def poot(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles Dynamo's graph; returns a callable over its flat inputs."""
    opts = _options.parse(mode, options)
    region = report.begin_region(gm)
    higher_order.expand(gm)
    replacements.replace(gm)
    moves = versions.moves(gm, example_inputs)
    draws = unused_draws.keep(gm)
    region.kept_draws, region.unclear_draws = draws.kept, draws.unclear

    incoming = incoming_gradients.IncomingGradients(gm, example_inputs)

    def compiler(kind: str) -> Callable[..., Any]:
        paths = _weight_paths(gm) if kind != "backward" else {}
        return functools.partial(_compile, kind=kind, opts=opts, region=region, paths=paths)

    def forward_compiler(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        incoming.watch()
        return compiler("forward")(graph, inputs)

    def backward_compiler(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return incoming.followed(graph, lambda g: compiler("backward")(g, inputs))

    # A fresh aot_autograd object for each graph: it stores and overwrites its keywords.
    trace = aot_autograd(
        fw_compiler=forward_compiler,
        bw_compiler=backward_compiler,
        inference_compiler=compiler("inference"),
        partition_fn=_partition,
        decompositions=_decompositions(gm, example_inputs),
        keep_inference_input_mutations=True,
    )
    with number_inputs.are_tensors(gm):
        compiled = trace(gm, example_inputs)
    compiled = incoming.told(compiled)
    region.specializations = specializations.found()
    if draws.kept:
        compiled = unused_draws.without(len(draws.kept), compiled)
    return versions.counted(compiled, moves) if moves else compiled


def _decompositions(gm: torch.fx.GraphModule, inputs: list[Any]) -> dict[Any, Callable[..., Any]]:
    table = decompositions.table() | (foreach.table() if foreach.present(gm) else {})
    tensors = [t for t in (*inputs, *gm.parameters()) if isinstance(t, torch.Tensor)]
    trained = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return table | softmax_parts.OWN if trained else table


def _partition(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
    """Keeps nothing for the backward that its kernels compute again beside their other work, such as the tanh of a
    gelu: less memory than PyTorch's default takes, and less traffic."""
    _drop_detaches(joint.graph)
    known = partitioners.get_default_op_list

    def with_rows() -> partitioners.OpTypes:
        types = known()
        for ops in (types.recomputable_ops, types.fusible_ops):
            ops.update((torch.ops.poot.row_sum, torch.ops.poot.row_log, torch.ops.aten.addcmul))
        return types

    with (
        torch._functorch.config.patch(ban_recompute_materialized_backward=False),
        mock.patch.object(partitioners, "get_default_op_list", with_rows),
    ):
        return partitioners.min_cut_rematerialization_partition(joint, *args, **kwargs)


def _drop_detaches(graph: torch.fx.Graph) -> None:
    """Inside a joint graph they mean nothing, and the partitioner keeps what they read rather than compute it again."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        if all(user.op != "output" for user in node.users):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _reset() -> None:
    """torch._dynamo.reset() calls this."""
    report.clear()
    _C.trim_output_pool()


poot.reset = _reset  # type: ignore[attr-defined]


@functools.cache
def _link_with_nvjitlink() -> None:
    """Machine code comes from the nvJitLink of torch's wheels, where there is one, else from the driver."""
    packages = pathlib.Path(torch.__file__).parent.parent / "nvidia"
    _C.link_with_nvjitlink(sorted(str(p) for p in packages.glob("*/lib/libnvJitLink.so.*")))


def _weight_paths(gm: torch.fx.GraphModule) -> dict[int, str]:
    """Paths of Dynamo's inputs in the user's program, by position."""
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
    return {i: input_path(n) for i, n in enumerate(inputs)}


def _weights(gm: torch.fx.GraphModule, paths: Mapping[int, str]) -> dict[int, str]:
    """Argument positions of the parameters and buffers that this graph never writes.

    AOTAutograd knows them by position among Dynamo's inputs, which each argument's descriptor tells.
    """
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    if meta is None or not paths:
        return {}
    written = {*meta.mutated_inp_runtime_indices, *getattr(meta, "mutated_graph_handled_indices", ())}
    constant = {i for i in meta.static_input_indices if i not in written}
    weights = {}
    for position, node in enumerate(n for n in gm.graph.nodes if n.op == "placeholder"):
        origin = getattr(node.meta.get("desc"), "idx", None)
        if type(node.meta.get("desc")).__name__ == "PlainAOTInput" and origin in constant:
            weights[position] = paths.get(origin, node.name)
    return weights


def _donated(gm: torch.fx.GraphModule) -> list[int]:
    """Positions of a backward graph's saved tensors that nobody reads after it.

    AOTAutograd tells those that are no argument's and no result's memory, and refuses `retain_graph` where there are
    any. Saved tensors that show one another's memory are left out. In a graph with ordered effects the positions that
    it tells are off by the effects' tokens, and nothing is donated.
    """
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    if getattr(meta, "tokens", None):
        return []
    given = getattr(meta, "bw_donated_idxs", None) or ()
    values = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    storages = {
        i: StorageWeakRef(v.untyped_storage())
        for i, v in enumerate(values)
        if isinstance(v, torch.Tensor) and v.layout is torch.strided
    }
    shown = collections.Counter(storages.values())
    return [i for i in given if i in storages and shown[storages[i]] == 1]


def _compile(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    kind: str,
    opts: _options.Options,
    region: report.Region,
    paths: Mapping[int, str],
    segment: bool = False,
) -> Callable[..., Any]:
    """Compiles one ATen graph, or a segment of one; returns a boxed callable: one list in, one list out."""
    if not segment and segments.makes_sizes(gm):
        each = functools.partial(_compile, kind=kind, opts=opts, region=region, paths=paths, segment=True)
        return segments.compile_segments(gm, lambda part: each(part, []), region)
    entry = region.begin_graph(kind, gm)

    @functools.cache  # an import that starts again meets the same graphs
    def compile_body(body: torch.fx.GraphModule) -> Callable[..., Any]:
        return _compile(body, [], kind="body", opts=opts, region=region, paths={})

    counters["poot"][f"graphs:{kind}"] += 1
    try:
        with entry.phase("import"):
            whole = not segment
            donated = _donated(gm) if kind == "backward" and whole else []
            layouts = saved_layouts.strides_of_saved(gm) if kind == "forward" and whole else {}
            if kind == "backward" and whole:
                saved_layouts.restride_placeholders(gm, example_inputs)
            imported = import_graph(
                gm,
                kind,
                _weights(gm, paths),
                donated,
                compile_body=compile_body,
                fast_random=opts.fast_random,
                training=entry.kind in ("forward", "backward"),
                layouts=layouts,
            )
        if opts.target not in ("auto", imported.device.type):
            raise WholeGraph(f"tensors on {imported.device}, the option target names {opts.target!r}")
        if imported.device.type == "cuda":
            _link_with_nvjitlink()
        if opts.strict and imported.fallbacks:
            raise StrictError(_refusal(imported.fallbacks))
        run = _build(imported, opts, entry)
    except WholeGraph as e:
        return _eager(gm, Fallback(e.op or "graph", (), e.reason, e.source), opts, entry)
    except StrictError:
        raise
    except PootError as e:
        if opts.strict or opts.memory_limit_bytes:  # eager would not keep to the limit
            raise
        reason = f"{type(e).__name__}: {e}"
        return _eager(gm, Fallback("graph", (), reason, ""), opts, entry)
    for fallback in imported.fallbacks:
        counters["poot"][f"fallback:{fallback.op}"] += 1
    entry.fallbacks.extend(imported.fallbacks)
    saved_layouts.report_strides(gm, layouts)
    return run


def _build(imported: Imported, opts: _options.Options, entry: report.GraphReport) -> Callable[..., Any]:
    start = time.perf_counter()
    run, native = _C.compile(
        imported.graph,
        imported.signature,
        imported.calls,
        device=str(imported.device),
        complex_args=imported.complex_args,
        complex_results=imported.complex_results,
        deterministic=torch.are_deterministic_algorithms_enabled(),
        training=entry.kind in ("forward", "backward"),
        **opts.compile_options(),
    )
    entry.finish(native, (time.perf_counter() - start) * 1e3)
    counters["poot"]["kernels"] += len(native.get("kernels", ()))
    # AOTAutograd wraps the backward with functools.wraps, which copies only __dict__.
    run._boxed_call = True
    return size_numbers.given(storages.given(run, imported.storages), imported.numbers)


def _refusal(fallbacks: list[Fallback]) -> str:
    lines = "\n".join(f"  {f}" for f in fallbacks)
    return f"strict: {len(fallbacks)} operator(s) would run in eager:\n{lines}"


def _eager(
    gm: torch.fx.GraphModule, fallback: Fallback, opts: _options.Options, entry: report.GraphReport
) -> Callable[..., Any]:
    """The graph as FX holds it, node by node through the dispatcher; counted and reported."""
    if opts.strict:
        raise StrictError(_refusal([fallback]))
    counters["poot"]["fallback:graph"] += 1
    entry.fall_back(gm, fallback)
    log.warning("poot: a whole graph runs in eager: %s", fallback)

    def run(args: list[Any]) -> Any:
        return torch.fx.Interpreter(gm).boxed_run(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
