"""A case of the suite is named `subject:dtype:mode:index`, as in `nn.functional.conv2d:f32:static:3`.

The subject is an operator, a module, an optimizer or a model; the index counts the samples of one group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from qualification.result import Result

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


@dataclasses.dataclass(frozen=True)
class Group:
    """The samples of one subject, dtype and mode, which one request to a worker runs."""

    subject: str
    dtype: str
    mode: str
    limit: int = ALL

    def case(self, index: int) -> str:
        return f"{self.subject}:{self.dtype}:{self.mode}:{index}"


@dataclasses.dataclass(frozen=True)
class Suite:
    """What a subcommand of cases is made of. A worker process finds it as `qualification.NAME.SUITE`.

    `runs(group, start, against)` yields, from sample `start` on, each sample's index and what judges it; `against`
    names the backend. `together(runs, against)` judges many of those at once, of any groups of one mode, in order.
    `reproducer(group, index)` is a script that shows the case without the suite.
    """

    name: str
    text: str
    scope: Callable[[], list[Group]]  # all that a sweep runs when nothing narrows it
    runs: Callable[[Group, int, str], Iterator[tuple[int, Callable[[], Result]]]]
    reproducer: Callable[[Group, int], str]
    timeout: float = 120.0  # seconds for one case
    together: Callable[[list[Any], str], Iterator[Result]] | None = None

    def parse(self, name: str) -> tuple[Group, int]:
        """Raises ValueError for what is no case name."""
        parts = name.rsplit(":", 3)
        scope = self.scope()
        if len(parts) != 4 or parts[1] not in DTYPES or not parts[3].isdecimal():
            raise ValueError(f"{name!r} is no case; one looks like {scope[0].case(0)}")
        if parts[2] not in {g.mode for g in scope}:
            raise ValueError(f"{self.name} has no mode {parts[2]!r}")
        if parts[0] not in {g.subject for g in scope}:
            raise ValueError(f"{self.name} has no subject {parts[0]!r}")
        return Group(parts[0], parts[1], parts[2]), int(parts[3])


def narrowed(
    groups: list[Group],
    *,
    only: Collection[str] | None = None,
    dtypes: Collection[str] | None = None,
    modes: Collection[str] | None = None,
    samples: int | None = None,
) -> list[Group]:
    """Those of the given subjects (with or without their variant's name), dtypes and modes."""
    return [
        dataclasses.replace(g, limit=min(g.limit, samples or ALL))
        for g in groups
        if (not only or g.subject in only or g.subject.rpartition(".")[0] in only)
        and (not dtypes or g.dtype in dtypes)
        and (not modes or g.mode in modes)
    ]
