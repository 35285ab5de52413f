"""Nested lists, tuples and dicts of a node's arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def mapped(fn: Callable[[Any], Any], tree: Any) -> Any:
    """fn over the leaves of nested lists and tuples."""
    if isinstance(tree, (list, tuple)):
        values = [mapped(fn, a) for a in tree]
        return tuple(values) if isinstance(tree, tuple) else values
    return fn(tree)


def leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (list, tuple)):
        for a in tree:
            yield from leaves(a)
    elif isinstance(tree, dict):
        yield from leaves(list(tree.values()))
    else:
        yield tree
