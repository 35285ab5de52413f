"""What a lowering writes with: typed values of the graph and the calls that emit equations.

The IR never promotes and never rounds behind one's back, so the helpers here make both explicit.
`Val` carries a torch dtype and a shape of ints and Dims.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind
from torch._prims_common import elementwise_dtypes

from . import _C
from .symbols import Symbols

DTYPE_NAMES = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.complex32: "c32",
}
TORCH_DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
NO_F64 = frozenset(("gelu_erf",))  # functions that kernels have in f32 only
REDUCED = frozenset((torch.float16, torch.bfloat16))


class Declined(Exception):
    """A lowering cannot express this call; the reason is reported and the call becomes opaque."""


@dataclasses.dataclass(frozen=True)
class Val:
    """A tensor value of the graph."""

    id: _C.Value
    dtype: torch.dtype
    shape: tuple[Any, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclasses.dataclass(frozen=True)
class ComplexVal:
    """A complex tensor as its real and imaginary parts, which the IR knows only apart."""

    re: Val
    im: Val

    @property
    def dtype(self) -> torch.dtype:
        return COMPLEX[self.re.dtype]

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.re.shape

    @property
    def ndim(self) -> int:
        return self.re.ndim


COMPLEX = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}
PART_OF = {whole: part for part, whole in COMPLEX.items()}
Number = bool | int | float
_NUMBERS_UNROUNDED = frozenset({"add", "sub", "mul", "div", "floor_div", "trunc_div"})
"""Operations whose kernels for a GPU read a number of the host as f32, beside tensors of f16 and bf16."""
_PROTOTYPES = {
    (dtype, dimensioned): torch.empty((1,) if dimensioned else (), dtype=dtype, device="meta")
    for dtype in DTYPE_NAMES
    if not dtype.is_complex
    for dimensioned in (False, True)
}


@functools.cache
def _promote(keys: tuple[Any, ...], kind: Kind) -> tuple[torch.dtype, torch.dtype]:
    args = [k() if isinstance(k, type) else _PROTOTYPES[k] for k in keys]
    return elementwise_dtypes(*args, type_promotion_kind=kind)


def is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def opmath(dtype: torch.dtype) -> torch.dtype:
    """What eager's CPU kernels compute in before they round to `dtype`."""
    return torch.float32 if dtype in REDUCED else dtype


@functools.lru_cache(maxsize=4096)
def _exact(number: Number, dtype: torch.dtype) -> bool:
    return number != number or float(torch.tensor(number, dtype=dtype)) == float(number)


def _refuse_overflow(number: Any, dtype: torch.dtype) -> None:
    """Eager raises for an integer that the dtype cannot hold (unsigned types take negative ones)."""
    if is_float(dtype) or dtype is torch.bool:
        return
    info = torch.iinfo(dtype)
    if not min(info.min, -info.max) <= int(number) <= info.max:
        raise Declined(f"{number} is no {DTYPE_NAMES[dtype]}")


class Emitter:
    """Emits equations for one FX node at a time; `meta` is that node's fake result. `training`: the graph has
    gradients, or is that of one."""

    def __init__(self, builder: _C.Builder, symbols: Symbols, training: bool = False) -> None:
        self.builder = builder
        self.symbols = symbols
        self.training = training
        self.meta: Any = None
        self._ramps: dict[_C.Value, int | None] = {}
        self.args_meta: list[Any] = []  # fake tensors of the node's tensor arguments, in order
        self.storages: dict[_C.Value, Val] = {}  # the flat storage behind a value, where an argument tells it
        self.make_seed: Callable[[], Val] | None = None
        self._seed: Val | None = None
        self._draws = 0

    # ---- results the node must have

    @property
    def out_shape(self) -> tuple[Any, ...]:
        return self.symbols.dims(self.meta.shape)

    @property
    def out_dtype(self) -> torch.dtype:
        return self.meta.dtype

    def reduced_on_cpu(self) -> bool:
        """The node yields f16 or bf16 on the CPU, where eager's vector code has formulas of its own for them."""
        out = self.meta[0] if isinstance(self.meta, (tuple, list)) else self.meta
        return isinstance(out, torch.Tensor) and out.dtype in REDUCED and out.device.type == "cpu"

    @property
    def trains_f32_on_cpu(self) -> bool:
        """The node yields f32 on the CPU in a graph with gradients: a bit grows from step to step there."""
        out = self.meta[0] if isinstance(self.meta, (tuple, list)) else self.meta
        f32 = isinstance(out, torch.Tensor) and out.dtype is torch.float32
        return self.training and f32 and out.device.type == "cpu"

    @property
    def on_gpu(self) -> bool:
        return isinstance(self.meta, torch.Tensor) and self.meta.device.type != "cpu"

    # ---- equations

    def wrap(self, value: _C.Value) -> Val:
        name, shape = self.builder.type(value)
        return Val(value, TORCH_DTYPES[name], shape)

    def emit_multi(self, op: str, *operands: Any, **attrs: Any) -> tuple[Val, ...]:
        if op in NO_F64 and any(isinstance(o, Val) and o.dtype is torch.float64 for o in operands):
            raise Declined(f"no kernel function {op} of f64")
        raw = [o.id if isinstance(o, Val) else o for o in operands]
        outs = self.builder.emit(op, raw, **attrs)
        return tuple(self.wrap(o) for o in (outs if isinstance(outs, tuple) else (outs,)))

    def emit(self, op: str, *operands: Any, **attrs: Any) -> Val:
        (out,) = self.emit_multi(op, *operands, **attrs)
        return out

    def lit(self, number: Any, dtype: torch.dtype) -> _C.Literal:
        if is_float(dtype):
            number = float(number)
        elif dtype is torch.bool:
            number = int(bool(number))
        else:
            number = int(number)
        return _C.Literal(DTYPE_NAMES[dtype], number)

    def value(self, x: Any, dtype: torch.dtype | None = None) -> Val:
        """A Val from a Val, number or Dim; cast to `dtype` if given."""
        if isinstance(x, _C.Dim):
            x = self.emit("size_value", value=x)
        if not isinstance(x, Val):
            dtype = dtype or default_dtype(x)
            return self.full(x, (), dtype)
        return x if dtype is None else self.cast(x, dtype)

    def cast(self, x: Val, dtype: torch.dtype) -> Val:
        return x if x.dtype == dtype else self.emit("cast", x, to=DTYPE_NAMES[dtype])

    def full(self, number: Any, shape: Sequence[Any], dtype: torch.dtype) -> Val:
        if isinstance(number, (Val, _C.Dim)):
            number = self.value(number, dtype)
        else:
            _refuse_overflow(number, dtype)
        operand = number if isinstance(number, Val) else self.lit(number, dtype)
        return self.emit("full", operand, shape=tuple(shape))

    def iota(self, size: Any, dtype: torch.dtype = torch.int64, start: Any = 0, step: Any = 1) -> Val:
        out = self.emit("iota", dtype=DTYPE_NAMES[dtype], size=size, start=start, step=step)
        if start == 0 and step == 1:
            self._ramps[out.id] = None if size == 1 else 0
        return out

    # ---- ramps: values known to equal their own coordinate, which index as a view does

    def is_ramp(self, x: Val) -> bool:
        return x.id in self._ramps

    def ramp_axis(self, x: Val) -> int | None:
        """The axis whose coordinate x equals; None if x is all zeros."""
        return self._ramps[x.id]

    def _ramp_reshaped(self, x: Val, out: Val) -> Val:
        axis = self._ramps.get(x.id, -1)
        if axis is None:
            self._ramps[out.id] = None
        elif axis >= 0:
            places = [i for i, d in enumerate(out.shape) if d != 1]
            if len(places) == 1 and out.shape[places[0]] == x.shape[axis]:
                self._ramps[out.id] = places[0]
        return out

    def _ramp_broadcast(self, x: Val, out: Val) -> Val:
        axis = self._ramps.get(x.id, -1)
        if axis is None:
            self._ramps[out.id] = None
        elif axis >= 0:
            self._ramps[out.id] = axis + out.ndim - x.ndim
        return out

    # ---- pointwise

    def promote(self, *args: Any, kind: Kind = Kind.DEFAULT) -> tuple[torch.dtype, torch.dtype]:
        """(computation dtype, result dtype) as eager promotes `args`."""
        keys: list[Any] = []
        for a in args:
            if isinstance(a, Val):
                keys.append((a.dtype, a.ndim > 0))
            elif isinstance(a, _C.Dim):
                keys.append(int)
            else:
                keys.append(type(a))
        return _promote(tuple(keys), kind)

    def operand(self, x: Any, dtype: torch.dtype) -> Any:
        """An equation operand of `dtype`: a literal for a number."""
        if isinstance(x, (Val, _C.Dim)):
            return self.value(x, dtype)
        return x if isinstance(x, _C.Literal) else self.lit(x, dtype)

    def pointwise(self, op: str, args: Sequence[Any], dtype: torch.dtype) -> Val:
        """`op` on operands promoted to `dtype`, rounded once to it.

        In f16 and bf16 a scalar factor or divisor that the type cannot hold, and a 0-d one of another
        dtype, enters eager's computation unrounded; then the operation is computed in f32. Every
        other operand is rounded first. On a GPU numbers that lie on the host enter sums, products and
        quotients unrounded, on either side, and 0-d tensors of the device are rounded as any other.
        """
        if self.on_gpu and (op not in _NUMBERS_UNROUNDED or not self._reads_host_numbers(args)):
            args = [a if isinstance(a, _C.Dim) else self.rounded(a, dtype) for a in args] if dtype in REDUCED else args
        if dtype in REDUCED and self.on_gpu and any(self._needs_opmath(a, dtype) for a in args):
            return self.cast(self.emit(op, *(self.operand(a, torch.float32) for a in args)), dtype)
        if dtype in REDUCED and op in ("mul", "div", "floor_div") and self._needs_opmath(args[-1], dtype):
            args = [*(self.rounded(a, dtype) for a in args[:-1]), args[-1]]
            wide = self.emit(op, *(self.operand(a, torch.float32) for a in args))
            return self.cast(wide, dtype)
        operands = [self.operand(a, dtype) for a in args]
        if not any(isinstance(o, Val) for o in operands):
            operands[0] = self.value(args[0], dtype)
        return self.emit(op, *operands)

    def _reads_host_numbers(self, args: Sequence[Any]) -> bool:
        if not any(isinstance(a, Val) and a.ndim == 0 for a in args):
            return True
        return any(t.ndim == 0 and t.device.type == "cpu" for t in self.args_meta if isinstance(t, torch.Tensor))

    def rounded(self, x: Any, dtype: torch.dtype) -> Any:
        """x as a Val or number that `dtype` holds."""
        if isinstance(x, (Val, _C.Dim)):
            return self.value(x, dtype)
        return float(torch.tensor(x, dtype=dtype))

    @staticmethod
    def _needs_opmath(x: Any, dtype: torch.dtype) -> bool:
        if isinstance(x, Val):
            return x.ndim == 0 and x.dtype != dtype and x.dtype is torch.float32
        return not isinstance(x, _C.Dim) and not _exact(x, dtype)

    def binary(self, op: str, a: Any, b: Any, kind: Kind = Kind.DEFAULT) -> Val:
        return self.pointwise(op, (a, b), self.promote(a, b, kind=kind)[1])

    def compare(self, op: str, a: Any, b: Any) -> Val:
        dtype = self.promote(a, b)[1]
        operands = [self.operand(a, dtype), self.operand(b, dtype)]
        return self.emit(op, *operands)

    def where(self, cond: Val, a: Any, b: Any, dtype: torch.dtype) -> Val:
        for x in (a, b):
            if isinstance(x, (bool, int)):
                _refuse_overflow(x, dtype)
        return self.emit("select", cond, self.operand(a, dtype), self.operand(b, dtype))

    # f32 (or wider) arithmetic of a composite: operands already have one dtype

    def add(self, a: Val, b: Any) -> Val:
        return self.emit("add", a, self.operand(b, a.dtype))

    def sub(self, a: Val, b: Any) -> Val:
        return self.emit("sub", a, self.operand(b, a.dtype))

    def mul(self, a: Val, b: Any) -> Val:
        return self.emit("mul", a, self.operand(b, a.dtype))

    def div(self, a: Val, b: Any) -> Val:
        return self.emit("div", a, self.operand(b, a.dtype))

    # ---- views

    def is_negative(self, number: Any) -> bool:
        """Of an int or Dim; a symbolic one has the sign that it was traced with."""
        return self.builder.range(number)[1] < 0 if isinstance(number, _C.Dim) else number < 0

    def reshape(self, x: Val, shape: Sequence[Any], *, proven: bool = False) -> Val:
        """`proven`: the trace knows that there are as many elements, of symbolic sizes too."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        known = {"proven": True} if proven and self.numel(shape) != self.numel(x.shape) else {}
        return self._ramp_reshaped(x, self.emit("reshape", x, shape=shape, **known))

    def broadcast(self, x: Val, shape: Sequence[Any]) -> Val:
        shape = tuple(shape)
        return x if x.shape == shape else self._ramp_broadcast(x, self.emit("broadcast", x, shape=shape))

    def transpose(self, x: Val, perm: Sequence[int]) -> Val:
        perm = [p % max(x.ndim, 1) for p in perm]
        return x if perm == list(range(x.ndim)) else self.emit("transpose", x, perm=perm)

    def unsqueeze(self, x: Val, axis: int) -> Val:
        axis = axis % (x.ndim + 1)
        return self.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))

    def slice(self, x: Val, axis: int, start: Any, end: Any, step: int = 1) -> Val:
        """start, start+step, … below end; bounds are already normalised."""
        if start == 0 and step == 1 and end == x.shape[axis]:
            return x
        return self.emit("slice", x, axis=axis, start=start, end=end, step=step)

    # ---- draws inside kernels

    def seed(self) -> Val:
        """A 0-d i64, other at each call of the graph."""
        if self._seed is None:
            assert self.make_seed is not None
            self._seed = self.make_seed()
        return self._seed

    def next_draw(self) -> int:
        """Numbers the draws that share the seed."""
        self._draws += 1
        return self._draws - 1

    # ---- reductions

    def reduce(self, op: str, x: Val, axes: Sequence[int], keepdim: bool, order: str | None = None) -> Val:
        """`order` of a sum (csrc/ir/reduce_order.def): that of eager's kernel of f32 or f64 on a CPU."""
        if not axes:
            return x
        asked = {} if order is None else {"order": order}
        return self.emit(f"reduce_{op}", x, axes=sorted(axes), keepdim=keepdim, **asked)

    def cascaded(self, x: Val, axes: Sequence[int], keepdim: bool) -> Val:
        """The sum of x as aten.sum adds it."""
        return self.reduce("sum", x, axes, keepdim, "cascade" if x.dtype in (torch.float32, torch.float64) else None)

    def moments(self, x: Val, axes: Sequence[int]) -> tuple[Val, Val]:
        """Mean and sum of squared deviations from it over axes of constant sizes, which are kept: f32 on a CPU."""
        mean, squares = (self.emit(f"welford_{op}", x, axes=sorted(axes), keepdim=True) for op in ("mean", "squares"))
        return mean, squares

    def numel(self, shape: Sequence[Any]) -> Any:
        n: Any = 1
        for d in shape:
            n = n * d
        return n

    def mean(self, x: Val, axes: Sequence[int], keepdim: bool, *, cascaded: bool = False) -> Val:
        """Sum over axes divided by their size, in x's dtype; `cascaded`: as aten.mean adds it."""
        count = self.numel([x.shape[a] for a in axes])
        total = self.cascaded(x, axes, keepdim) if cascaded else self.reduce("sum", x, axes, keepdim)
        return self.div(total, count)


def default_dtype(x: Any) -> torch.dtype:
    """The dtype that eager gives a Python number."""
    if isinstance(x, bool):
        return torch.bool
    if isinstance(x, (int, _C.Dim)):
        return torch.int64
    return torch.get_default_dtype()


def normalize_axes(dims: Any, ndim: int) -> list[int]:
    """None or [] means every axis, an int is one; negative axes count from the end."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(ndim))
    if isinstance(dims, int):
        dims = [dims]
    return [d % max(ndim, 1) for d in dims] if ndim else []
