"""Where nodes and inputs of a graph came from in the user's program: the innermost line outside torch itself, the
dotted path of a parameter."""

from __future__ import annotations

import functools
import os
import re
import traceback
from collections.abc import Sequence
from typing import Any

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s+([^\n]*)')
_SOURCE = re.compile(r"[LG]\['(\w+)'\]((?:\.\w+|\['[^']+'\]|\[\d+\])*)")
_STEP = re.compile(r"\.(\w+)|\['([^']+)'\]|\[(\d+)\]")
_STORES = frozenset(("_modules", "_parameters", "_buffers"))


def _innermost(frames: Sequence[tuple[str, Any, str, str]]) -> str:
    """Of (file, line, function, code)."""
    if not frames:
        return ""
    outside = [f for f in frames if not f[0].startswith(_TORCH)]
    file, line, function, code = (outside or frames)[-1]
    return f"{file}:{line}, in {function}: {code.strip()}"


@functools.lru_cache(maxsize=4096)
def _of_trace(trace: str) -> str:
    return _innermost(_FRAME.findall(trace))


def frame_line(stack: traceback.StackSummary) -> str:
    """As `source_line`."""
    return _innermost([(f.filename, f.lineno, f.name, f.line or "") for f in stack])


def source_line(node: torch.fx.Node) -> str:
    """The user's source line: "model.py:12, in forward: x + 1", or ""."""
    trace = node.meta.get("stack_trace")
    return _of_trace(trace) if trace else ""


def input_path(node: torch.fx.Node) -> str:
    """The dotted path of an input of Dynamo's graph: "layers.0.weight" for a parameter of `self`, "model.weight" for
    one of a local or global `model`; the node's name where the source is more than attributes and items."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "")
    found = _SOURCE.fullmatch(name() if callable(name) else name)
    if found is None:
        return node.name
    steps = ["".join(step) for step in _STEP.findall(found[2])]
    root = [] if found[1] == "self" and steps else [found[1]]
    return ".".join(root + [s for s in steps if s not in _STORES])
