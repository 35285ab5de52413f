"""Sizes that a trace began with as symbols and fixed to one number: another number compiles the program again."""

from __future__ import annotations

from typing import Any

import torch

from .provenance import frame_line


def found() -> list[dict[str, Any]]:
    """Of the trace in progress: source ("L['x'].size()[0]"), value, the user's line where a guard fixed it, or ""."""
    context = torch._guards.TracingContext.try_get()
    env = context.fake_mode.shape_env if context is not None and context.fake_mode is not None else None
    if env is None:
        return []
    fixed = []
    for symbol, sources in env.var_to_sources.items():
        value = env.replacements.get(symbol)
        if value is None or not value.is_number or not sources:
            continue
        name = sources[0].name
        stack = env.specialization_stacks.get(sources[0])
        fixed.append(
            {
                "source": name() if callable(name) else name,
                "value": int(value) if value.is_integer else float(value),
                "where": frame_line(stack) if stack else "",
            }
        )
    return fixed
