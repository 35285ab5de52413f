"""Options of the backend and the modes that torch.compile passes through.

A mode is a preset, because torch.compile refuses `mode=` and `options=` together.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import OptionError, TargetAbsentError

MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {},
    "max-autotune-no-cudagraphs": {"capture_libraries": False},
}
TARGETS = ("auto", "cpu", "cuda")
ABSENT_TARGETS: Mapping[str, str] = {
    "vulkan": "neither a lowering to SPIR-V nor a runtime for a Vulkan device exists",
    "amd": "neither a lowering to AMDGPU code nor a runtime for a HSA device exists",
}
"""Targets that this build cannot run, with what each lacks."""


@dataclasses.dataclass(frozen=True)
class Options:
    """`torch.compile(model, backend="poot", options={...})`."""

    strict: bool = False
    """An operator that would fall back to eager is a StrictError instead."""
    fuse: bool = True
    """Join pointwise and row operations into one kernel."""
    target: str = "auto"
    """Where kernels run: on the device of a graph's tensors; naming one refuses graphs on others."""
    memory_limit_bytes: int = 0
    """Refuse a program that needs more memory beside its arguments; 0: no limit."""
    freeze: bool = False
    """Keep the weights of convolutions and of bf16 products packed between calls, batch norms folded into the former.
    In-place updates are noticed by their version counters: writes that go past autograd, as through `.data`, are
    not."""
    output_pool: bool = True
    """Keep the memory of large results and transients that died for later calls."""
    capture_libraries: bool = True
    """On a GPU, replay library calls in CUDA graphs where their operands stay in place from call to call. The graphs
    of a stream share one pool, which holds what the libraries take for themselves between calls."""
    matrix_unit: bool = False
    """On a CPU with AMX, bf16 products of many rows become kernels with what follows them, where ATen's otherwise
    compute. Measured, oneDNN's are as fast or faster."""
    fast_random: bool = False
    """Draw numbers inside kernels: one seed gives the same numbers again, but not eager's."""

    def compile_options(self) -> dict[str, Any]:
        """What `_C.compile` takes."""
        return {
            "fuse": self.fuse,
            "memory_limit_bytes": self.memory_limit_bytes,
            "output_pool": self.output_pool,
            "freeze": self.freeze,
            "matrix_unit": self.matrix_unit,
            "capture_libraries": self.capture_libraries,
        }


def _unknown(what: str, name: str, known: Iterable[str]) -> OptionError:
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.0)
    hint = f"; nearest: {near[0]!r}" if near else ""
    return OptionError(f"poot: unknown {what} {name!r}{hint}; valid: {', '.join(known)}")


def parse(mode: str | None, options: Mapping[str, Any] | None) -> Options:
    """Options from what torch.compile hands over.

    Raises OptionError for an unknown mode, option or target and for a value of the wrong type, TargetAbsentError for
    a known target that this build cannot run.
    """
    if mode is not None and mode not in MODES:
        raise _unknown("mode", mode, MODES)
    given = dict(MODES[mode]) if mode is not None else {}
    given.update(options or {})
    fields = {f.name: f for f in dataclasses.fields(Options)}
    for key, value in given.items():
        if key not in fields:
            raise _unknown("option", key, fields)
        want = type(fields[key].default)
        if type(value) is not want:
            raise OptionError(f"poot: option {key!r} takes {want.__name__}, not {value!r}")
    parsed = Options(**given)
    if parsed.target in ABSENT_TARGETS:
        raise TargetAbsentError(f"poot: target absent: {parsed.target!r}: {ABSENT_TARGETS[parsed.target]}")
    if parsed.target not in TARGETS:
        raise _unknown("target", parsed.target, TARGETS)
    if parsed.memory_limit_bytes < 0:
        raise OptionError("poot: option 'memory_limit_bytes' must not be negative")
    return parsed
