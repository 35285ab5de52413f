"""What happened while torch.compile worked: one report over all graphs since the last reset.

report = poot_torch.explain(fn)(*args)
print(report)                 # text
report.to_json()              # a dict that report_schema.json describes
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from . import _C
from .report_text import render

if TYPE_CHECKING:
    from .dispatch import Fallback

SCHEMA_PATH = pathlib.Path(__file__).with_name("report_schema.json")
SCHEMA_VERSION = 1
_LONGEST = 256  # regions kept
_regions: collections.deque[Region] = collections.deque(maxlen=_LONGEST)
_since = time.time()  # when the record was last cleared
_store_before: dict[str, int] = {}  # the kernel store's counts then
_store_events: list[str] = []  # since then
_breaks_before: collections.Counter[str] = collections.Counter()  # what Dynamo counted then


@dataclasses.dataclass
class GraphReport:
    """One ATen graph: the inference graph, or a forward or backward half."""

    kind: str
    nodes: int
    native: dict[str, Any] = dataclasses.field(default_factory=dict)
    fallbacks: list[Fallback] = dataclasses.field(default_factory=list)
    phases_ms: dict[str, float] = dataclasses.field(default_factory=dict)
    whole_graph: bool = False  # all of it runs in eager

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases_ms[name] = (time.perf_counter() - start) * 1e3

    def finish(self, native: dict[str, Any], milliseconds: float) -> None:
        """`native` is the report of `_C.compile`."""
        self.native = native
        phases = native.get("phases_ms", {})
        self.phases_ms.update(phases)
        self.phases_ms["load"] = max(milliseconds - sum(phases.values()), 0.0)

    def fall_back(self, gm: torch.fx.GraphModule, reason: Fallback) -> None:
        self.whole_graph = True
        self.fallbacks = [reason]

    def classes(self) -> dict[str, int]:
        """Number of operators by class: generated, library, fallback, none."""
        counts = dict.fromkeys(("generated", "library", "fallback", "none"), 0)
        if self.whole_graph:
            counts["fallback"] = self.nodes
        for op in self.native.get("ops", ()):
            counts[op["class"]] += 1
        return counts

    def to_json(self) -> dict[str, Any]:
        return {
            **(self.native or _C.empty_report()),
            "kind": self.kind,
            "nodes": self.nodes,
            "whole_graph_fallback": self.whole_graph,
            "classes": self.classes(),
            "fallbacks": [dataclasses.asdict(f) | {"dtypes": list(f.dtypes)} for f in self.fallbacks],
            "phases_ms": dict(self.phases_ms),
        }


@dataclasses.dataclass
class Region:
    """One graph of Dynamo's: what lies between two graph breaks of one frame."""

    compile_id: str
    break_reason: str
    break_sources: list[str]
    graphs: list[GraphReport] = dataclasses.field(default_factory=list)
    kept_draws: list[str] = dataclasses.field(default_factory=list)  # source lines of unused draws
    unclear_draws: list[str] = dataclasses.field(default_factory=list)  # of unused calls that may draw, and why
    specializations: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # of `specializations.found`

    def begin_graph(self, kind: str, gm: torch.fx.GraphModule) -> GraphReport:
        nodes = sum(n.op == "call_function" for n in gm.graph.nodes)
        self.graphs.append(GraphReport(kind, nodes))
        return self.graphs[-1]

    @property
    def recompilation(self) -> bool:
        _, _, attempt = self.compile_id.partition("/")
        return attempt.split("_")[0] not in ("", "0")

    def to_json(self) -> dict[str, Any]:
        return {
            "compile_id": self.compile_id,
            "recompilation": self.recompilation,
            "recompile_reason": _recompile_reason(self.compile_id) if self.recompilation else "",
            "kept_draws": self.kept_draws,
            "unclear_draws": self.unclear_draws,
            "specializations": self.specializations,
            "break": {"reason": self.break_reason, "sources": self.break_sources} if self.break_reason else None,
        }


def _recompile_reason(compile_id: str) -> str:
    from torch._dynamo.utils import get_compilation_metrics

    for metrics in reversed(get_compilation_metrics()):
        if metrics.compile_id == compile_id:
            return str(getattr(metrics, "recompile_reason", None) or "")
    return ""


def begin_region(gm: torch.fx.GraphModule) -> Region:
    """Opens the record of a Dynamo graph."""
    compile_id = torch._guards.CompileContext.current_compile_id()
    reason, sources = "", []
    why = getattr(gm, "compile_subgraph_reason", None)
    if why is not None and getattr(why, "graph_break", False):
        reason = str(why.reason).strip().splitlines()[0]
        sources = [f"{f.filename}:{f.lineno}, in {f.name}: {f.line}" for f in why.user_stack]
    region = Region(str(compile_id) if compile_id is not None else "", reason, sources)
    _regions.append(region)
    return region


def _dynamo_breaks() -> collections.Counter[str]:
    from torch._dynamo.utils import counters

    return collections.Counter(counters["graph_break"])


def clear() -> None:
    global _since, _store_before, _breaks_before
    _breaks_before = _dynamo_breaks()
    _regions.clear()
    _since = time.time()
    _C.take_store_events()
    _store_events.clear()
    _store_before = _C.store_stats()


def _store() -> dict[str, Any]:
    """What befell the kernel store since the last reset, outside any one kernel."""
    _store_events.extend(_C.take_store_events())
    counts = _C.store_stats()
    keys = ("worker_restarts", "timeouts", "cache_write_failures")
    return {k: counts[k] - _store_before.get(k, 0) for k in keys} | {"events": list(_store_events)}


def _eager_frames() -> list[dict[str, str]]:
    """Frames that Dynamo gave up on since the last reset (recompile limit, errors it was told to
    suppress): no backend sees them, and they run in eager."""
    from torch._dynamo.utils import get_compilation_metrics

    metrics = get_compilation_metrics()
    frame = lambda m: str(m.compile_id or "").partition("/")[0]  # noqa: E731
    names = {frame(m): f"{m.co_name} ({m.co_filename}:{m.co_firstlineno})" for m in metrics if m.co_name}
    frames = []
    for m in metrics:
        if m.fail_type is not None and (m.start_time or 0.0) >= _since:
            reason = str(m.fail_reason or m.fail_type).strip().splitlines()[0]
            frames.append(
                {
                    "compile_id": str(m.compile_id or ""),
                    "function": names.get(frame(m), ""),
                    "reason": reason,
                    "recompile_reason": str(m.recompile_reason or ""),
                }
            )
    return frames


class Report:
    """All graphs compiled since the last `torch._dynamo.reset()`; a snapshot."""

    def __init__(self, regions: list[Region]) -> None:
        self.regions = regions
        self.eager_frames = _eager_frames()
        self.breaks_without_graph = self._breaks_without_graph()
        self.store = _store()
        self.output_pool: dict[str, int] = _C.output_pool_stats()

    def _breaks_without_graph(self) -> list[str]:
        """Reasons of breaks before which a frame had nothing to compile: only Dynamo's own count tells of them."""
        told = collections.Counter(r.break_reason for r in self.regions if r.break_reason)
        counted = _dynamo_breaks() - _breaks_before
        seen = collections.Counter[str]()
        for reason, n in counted.items():
            seen[str(reason).strip().splitlines()[0]] += n
        return list((seen - told).elements())[: max(counted.total() - told.total(), 0)]

    @property
    def graphs(self) -> list[GraphReport]:
        return [g for r in self.regions for g in r.graphs]

    @property
    def fallbacks(self) -> list[Fallback]:
        return [f for g in self.graphs for f in g.fallbacks]

    def totals(self) -> dict[str, Any]:
        graphs = self.graphs
        classes: collections.Counter[str] = collections.Counter()
        kernels: collections.Counter[str] = collections.Counter()
        phases: collections.Counter[str] = collections.Counter()
        for g in graphs:
            classes.update(g.classes())
            kernels.update(k["origin"] for k in g.native.get("kernels", ()))
            phases.update(g.phases_ms)
        return {
            "graphs": len(graphs),
            "breaks": sum(bool(r.break_reason) for r in self.regions) + len(self.breaks_without_graph),
            "recompilations": sum(r.recompilation for r in self.regions),
            "eager_frames": len(self.eager_frames),
            "classes": dict(classes),
            "dispatches_before": sum(g.native.get("dispatches_before", 0) for g in graphs),
            "dispatches_after": sum(g.native.get("dispatches_after", 0) for g in graphs),
            "peak_transient_bytes": max((g.native.get("peak_transient_bytes", 0) for g in graphs), default=0),
            "kernels": {origin: kernels[origin] for origin in ("compiled", "disk", "memory", "failed")},
            "phases_ms": dict(phases),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain data; `report_schema.json` is its schema."""
        return {
            "version": SCHEMA_VERSION,
            "totals": self.totals(),
            "store": self.store,
            "output_pool": self.output_pool,
            "eager_frames": self.eager_frames,
            "breaks_without_graph": self.breaks_without_graph,
            "regions": [r.to_json() for r in self.regions],
            "graphs": [{"region": i, **g.to_json()} for i, r in enumerate(self.regions) for g in r.graphs],
        }

    def save(self, path: str | pathlib.Path) -> None:
        pathlib.Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n")

    def __str__(self) -> str:
        return render(self.to_json())


def last_report() -> Report:
    """The report over everything compiled since the last reset."""
    return Report(list(_regions))


def explain(fn: Callable[..., Any], **options: Any) -> Callable[..., Report]:
    """`explain(fn)(*args)` compiles fn afresh, calls it once, and returns the report.

    `options` are those of the backend. Other compiled functions are forgotten, since Dynamo's caches
    are reset first.
    """

    from .backend import poot  # which imports this module

    def call(*args: Any, **kwargs: Any) -> Report:
        torch._dynamo.reset()
        clear()
        torch.compile(fn, backend=poot, options=options or None)(*args, **kwargs)
        return last_report()

    return call
