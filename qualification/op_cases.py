"""The cases of `ops`: which operator of op_db, at which dtype, in which mode, on which of its samples.

op_db seeds each of its samples, so a case's name means the same tensors in every process.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from qualification.cases import ALL, DTYPES, Group

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


@functools.cache
def operators() -> dict[str, Any]:
    """OpInfo by full name (with the variant), in op_db's order."""
    from torch.testing._internal import common_methods_invocations, opinfo

    # op_db seeds inside its random operators, which no graph may; op_run seeds before each call instead. Its frame
    # counts as op_db's own, so that a report tells the call that an operator comes from.
    source = "def unseeded(op, *args, **kwargs):\n    return op(*args, **kwargs)\n"
    found: dict[str, Any] = {}
    exec(compile(source, common_methods_invocations.__file__, "exec"), found)
    unseeded = found["unseeded"]
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


@functools.cache
def scope() -> list[Group]:
    """Do not change the list. A dtype that the scope has in another mode only is run in that mode only."""
    return [
        Group(name, dtype, mode, limit)
        for name, info in operators().items()
        for mode, dtypes, limit in SCOPE
        for dtype in dtypes
        if _applies(info, DTYPES[dtype], mode)
    ]


@dataclasses.dataclass
class Sample:
    """One call: `op(*args, **kwargs)`, or `fn`, a function that makes it; `outputs` selects what has a gradient."""

    index: int
    op: Callable[..., Any]
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Callable[[Any], Any]


def _emptied(x: Any) -> Any:
    return x[:0] if isinstance(x, torch.Tensor) and x.ndim else x


def _function(op: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile takes no builtin."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    return call


def samples(group: Group, start: int = 0, stop: int | None = None) -> Iterator[Sample]:
    """Samples start…stop of the group, lazily."""
    info = operators()[group.subject]
    op = info.inplace_variant if group.mode == "inplace" else info.get_op()
    fn = _function(op)
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
        yield Sample(index, op, fn, args, kwargs, sample.output_process_fn_grad)
