"""SymInts of a traced graph as `_C.Dim` expressions.

A symbol of the ShapeEnv becomes a symbol of the graph when something binds it at run time: an int
argument that is that symbol, or a tensor argument with a size that is. A backward graph may receive
a compound expression (`s27//2`) without its symbols; then the whole expression becomes one symbol.
A symbol that a guard equals to an expression of others is that expression; one of which guards say that a number
divides it is that multiple of a symbol of the graph, so that the parts it is divided into add up to it.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from . import _C

_FAR = 2**31
_DATA_DEPENDENT_HINT = 1024  # a likely value of a size that depends on data


class Unbindable(Exception):
    """A size that no argument determines, or arithmetic that Dim cannot express."""


def _equals(sym: torch.SymInt) -> list[Any]:
    """Expressions of other symbols that guards say a plain symbol equals: where `x.unflatten(0, (a, b))` is traced with
    a and b symbolic, the size of x is a*b."""
    expr = sym.node.expr
    if not expr.is_Symbol:
        return []
    pairs = [g.expr.args for g in sym.node.shape_env.guards if type(g.expr).__name__ == "Equality"]
    others = [right if left == expr else left for left, right in pairs if expr in (left, right)]
    return [o for o in others if o.free_symbols and expr not in o.free_symbols]


def _product_of(sym: torch.SymInt) -> Any:
    """What a plain symbol is a product or sum of, or None."""
    return next((o for o in _equals(sym) if o.is_polynomial()), None)


def _divisor(expr: Any, env: Any) -> int:
    """The number that guards say divides a plain symbol."""
    found = 1
    if expr.is_Symbol:
        for g in env.guards:
            left, *right = g.expr.args
            if type(g.expr).__name__ == "Equality" and type(left).__name__ == "Mod" and right == [0]:
                if left.args[0] == expr and left.args[1].is_Integer:
                    found = math.lcm(found, int(left.args[1]))
    return found


def _linear(expr: Any) -> tuple[Any, int, int] | None:
    """(symbol, factor, offset) of factor*symbol + offset, which one value determines."""
    if expr.is_Symbol or len(expr.free_symbols) != 1:
        return None
    (symbol,) = expr.free_symbols
    factor = expr.coeff(symbol)
    offset = expr - factor * symbol
    return (symbol, int(factor), int(offset)) if factor.is_Integer and factor > 0 and offset.is_Integer else None


class Symbols:
    def __init__(self, builder: _C.Builder) -> None:
        self._builder = builder
        self._bound: dict[Any, Any] = {}  # sympy expression -> Dim

    def bind(self, sym: torch.SymInt) -> Any:
        """The Dim of an int argument; a new symbol if its expression is not known yet."""
        expr = sym.node.expr
        equal = _product_of(sym)
        try:
            self._bound[expr] = self._convert(expr if equal is None else equal)
        except Unbindable:
            return self._fresh(sym)
        return self._bound[expr]

    def _bind_linear(self, sym: torch.SymInt) -> None:
        """The symbol that the size is linear in, if nothing binds it."""
        found = _linear(sym.node.expr)
        if found is not None and found[0] not in self._bound:
            symbol, factor, offset = found
            hint = sym.node.hint
            self._add(symbol, sym.node.shape_env, None if hint is None else (hint - offset) // factor)

    def bind_sizes(self, sizes: Any, *, compound: bool) -> None:
        """Binds sizes that are plain symbols of their own; with `compound`, any size still unknown."""
        for s in sizes:
            if isinstance(s, torch.SymInt):
                expr = s.node.expr
                if expr in self._bound or expr.is_Integer:
                    continue
                if expr.is_Symbol and _product_of(s) is None:
                    self._fresh(s)
                elif compound:
                    self._bind_linear(s)
                    self.bind(s)

    def dim(self, size: Any) -> Any:
        """An int or SymInt as an int or Dim; raises Unbindable."""
        if isinstance(size, torch.SymInt):
            return self._convert(size.node.expr)
        if isinstance(size, (int, _C.Dim)):
            return int(size) if isinstance(size, bool) else size
        raise Unbindable(f"size {size!r} of type {type(size).__name__}")

    def dims(self, sizes: Any) -> tuple[Any, ...]:
        return tuple(self.dim(s) for s in sizes)

    def _fresh(self, sym: torch.SymInt) -> Any:
        """A symbol of the graph for the whole expression."""
        expr = sym.node.expr
        self._add(expr, sym.node.shape_env, sym.node.hint)
        for equal in _equals(sym):
            self._bound.setdefault(equal, self._bound[expr])
        return self._bound[expr]

    def _add(self, expr: Any, env: Any, hint: int | None) -> None:
        if any(str(s).startswith(("zf", "zuf")) for s in expr.free_symbols):
            raise Unbindable(f"a number that depends on data: {expr}")
        bounds = env.bound_sympy(expr)
        lo = int(bounds.lower) if bounds.lower.is_Integer else -_FAR
        hi = int(bounds.upper) if bounds.upper.is_Integer else None
        if hint is None:  # it depends on data
            hint = min(max(lo, _DATA_DEPENDENT_HINT), hi or _DATA_DEPENDENT_HINT)
        if hint < 0:  # a number of the program's; where its sign matters, the trace guards it
            hi = -1
        else:
            lo = max(lo, 0)
        unit = _divisor(expr, env)
        symbol = self._builder.add_symbol(-(-lo // unit), hi and hi // unit, int(hint) // unit)
        self._bound[expr] = unit * symbol

    def _convert(self, expr: Any) -> Any:
        found = self._bound.get(expr)
        if found is not None:
            return found
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            raise Unbindable(f"symbol {expr} is not determined by an argument")
        result = self._apply(expr)
        self._bound[expr] = result
        return result

    def _apply(self, expr: Any) -> Any:
        kind = type(expr).__name__
        args = expr.args
        if kind == "Pow":
            base, exponent = args
            if not (exponent.is_Integer and int(exponent) > 0):
                raise Unbindable(f"{expr}")
            args = (base,) * int(exponent)
            kind = "Mul"
        if kind == "Mul" and any(a.is_Rational and not a.is_Integer for a in args):
            raise Unbindable(f"{expr}")
        dims = [self._convert(a) for a in args]
        if kind == "Add":
            return sum(dims[1:], dims[0])
        if kind == "Mul":
            result = dims[0]
            for d in dims[1:]:
                result = result * d
            return result
        if kind in ("FloorDiv", "CleanDiv"):
            return dims[0] // dims[1]
        if kind in ("Mod", "PythonMod"):
            return dims[0] % dims[1]
        if kind == "ModularIndexing":
            return dims[0] // dims[1] % dims[2]
        if kind == "Identity":
            return dims[0]
        if kind in ("Max", "Min"):
            join = _C.dim_max if kind == "Max" else _C.dim_min
            result = dims[0]
            for d in dims[1:]:
                result = join(result, d)
            return result
        raise Unbindable(f"{kind} in the size {expr}")
