"""Where a node of the graph came from: the innermost line outside torch itself."""

from __future__ import annotations

import functools
import os
import re

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s+([^\n]*)')


@functools.lru_cache(maxsize=4096)
def _innermost(trace: str) -> str:
    frames = _FRAME.findall(trace)
    if not frames:
        return ""
    outside = [f for f in frames if not f[0].startswith(_TORCH)]
    file, line, function, code = (outside or frames)[-1]
    return f"{file}:{line}, in {function}: {code.strip()}"


def source_line(node: torch.fx.Node) -> str:
    """The user's source line: "model.py:12, in forward: x + 1", or ""."""
    trace = node.meta.get("stack_trace")
    return _innermost(trace) if trace else ""
