"""The cases of `ops`: which operator of op_db, at which dtype, in which mode, on which of its samples.

A case is named `operator:dtype:mode:index`, as in `nn.functional.conv2d:f32:static:3`. op_db seeds each of its
samples, so a name means the same tensors in every process.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

DTYPES = {
    "f32": torch.float32,
    "bool": torch.bool,
    "u8": torch.uint8,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "c64": torch.complex64,
}
ALL = 10**6
# (mode, dtypes, samples): what a sweep runs when nothing narrows it.
SCOPE = (
    ("static", ("f32",), ALL),
    ("static", ("bool", "u8", "i32", "i64", "f16", "bf16", "f64", "c64"), 3),
    ("noncontiguous", ("f32",), 1),
    ("empty", ("f32",), 1),
    ("dynamic", ("f32",), 2),
    ("inplace", ("f32",), 2),
    ("grad", ("f32", "f64"), 3),
)
MODES = tuple(dict.fromkeys(mode for mode, _, _ in SCOPE))


@dataclasses.dataclass(frozen=True)
class Group:
    """The samples of one operator, dtype and mode, which one request to a worker runs."""

    op: str
    dtype: str
    mode: str
    limit: int

    def case(self, index: int) -> str:
        return f"{self.op}:{self.dtype}:{self.mode}:{index}"


def parse_case(name: str) -> tuple[Group, int]:
    """Raises ValueError for what is no case name."""
    parts = name.split(":")
    if len(parts) != 4 or parts[1] not in DTYPES or parts[2] not in MODES or not parts[3].isdecimal():
        raise ValueError(f"{name!r} is no case; one looks like add:f32:static:0")
    if parts[0] not in operators():
        raise ValueError(f"op_db has no operator {parts[0]!r}")
    return Group(parts[0], parts[1], parts[2], ALL), int(parts[3])


@functools.cache
def operators() -> dict[str, Any]:
    """OpInfo by full name (with the variant), in op_db's order."""
    from torch.testing._internal import common_methods_invocations, opinfo

    def unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    # op_db seeds inside its random operators, which no graph may; op_run seeds before each call instead.
    for module in (common_methods_invocations, *vars(opinfo.definitions).values()):
        if hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = unseeded
    op_db = common_methods_invocations.op_db
    return {info.full_name: info for info in op_db}


def _applies(info: Any, dtype: torch.dtype, mode: str) -> bool:
    if mode == "grad":
        return info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
    if mode == "inplace" and info.inplace_variant is None:
        return False
    return dtype in info.supported_dtypes("cpu")


def groups(
    *,
    only: list[str] | None = None,
    dtypes: list[str] | None = None,
    modes: list[str] | None = None,
    samples: int | None = None,
) -> list[Group]:
    """The scope, narrowed; a dtype that the scope has in another mode only is run in that mode only."""
    found = []
    for name, info in operators().items():
        if only and name not in only and info.name not in only:
            continue
        for mode, scoped, limit in SCOPE:
            if modes and mode not in modes:
                continue
            for dtype in scoped:
                if (not dtypes or dtype in dtypes) and _applies(info, DTYPES[dtype], mode):
                    found.append(Group(name, dtype, mode, min(limit, samples or ALL)))
    return found


@dataclasses.dataclass
class Sample:
    """One call: `fn(*args, **kwargs)`; `outputs` selects what has a gradient."""

    index: int
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Callable[[Any], Any]


def _emptied(x: Any) -> Any:
    return x[:0] if isinstance(x, torch.Tensor) and x.ndim else x


def _function(info: Any, mode: str) -> Callable[..., Any]:
    op = info.inplace_variant if mode == "inplace" else info.get_op()

    def call(*args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    return call


def samples(group: Group, start: int = 0, stop: int | None = None) -> Iterator[Sample]:
    """Samples start…stop of the group, lazily."""
    info = operators()[group.op]
    fn = _function(info, group.mode)
    inputs = info.sample_inputs("cpu", DTYPES[group.dtype], requires_grad=group.mode == "grad")
    stop = group.limit if stop is None else stop
    for index, sample in enumerate(itertools.islice(inputs, stop)):
        if index < start:
            continue
        if group.mode == "noncontiguous":
            sample = sample.noncontiguous()
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        if group.mode == "empty":
            args, kwargs = pytree.tree_map(_emptied, (args, kwargs))
        yield Sample(index, fn, args, kwargs, sample.output_process_fn_grad)
