"""poot: a torch.compile backend with its own graph IR, fusion, planning and code generation.

    torch.compile(model, backend="poot", options={"strict": True})

`explain(fn)(*args)` and `last_report()` tell what was generated, fused, called or left to eager;
`profile(fn)(*args)` tells where the time of a call goes.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "explain": "report",
    "last_report": "report",
    "profile": "profiler",
    "Profile": "profiler",
    "Report": "report",
    "PootError": "errors",
    "StrictError": "errors",
    "OptionError": "errors",
    "TargetAbsentError": "errors",
    "InvalidGraph": "errors",
    "Unsupported": "errors",
    "CompileError": "errors",
    "DeviceError": "errors",
    "InternalError": "errors",
}
__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    """Public names load their module on first use: `import poot_torch` is cheap."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
