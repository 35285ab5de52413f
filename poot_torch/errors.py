"""Typed errors. Those of the C++ side (`csrc/support/errors.h`) come from `_C`."""

from __future__ import annotations

import torch  # noqa: F401  (the extension finds libtorch through it)

from ._C import CompileError, DeviceError, InternalError, InvalidGraph, PootError, Unsupported

__all__ = [
    "CompileError",
    "DeviceError",
    "InternalError",
    "InvalidGraph",
    "OptionError",
    "PootError",
    "StrictError",
    "TargetAbsentError",
    "Unsupported",
]


class OptionError(PootError, ValueError):
    """An unknown option, mode or value; the message names the nearest valid one."""


class TargetAbsentError(OptionError):
    """A target that this build cannot run; the message says what is missing."""


class StrictError(PootError):
    """`strict=True` met an operator that poot cannot compile.

    The message names the operator, its dtypes, the reason and the user's source line.
    """
