"""One architecture, run eagerly, at double precision and compiled: the Trial of `models` and of `training`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from qualification.architectures import Architecture
from qualification.gradients import SEED, detached
from qualification.op_judge import Outcome, copied
from qualification.result import forget

SEEDS = 16  # of a case that one does not settle


class WideMode(TorchFunctionMode):
    """Computes in float64 where a model asks for float32, and where PyTorch has only a kernel of smaller types."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def wide(a: Any) -> Any:
            return torch.float64 if a is torch.float32 else a

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        if getattr(func, "__name__", "") in ("grouped_mm", "_grouped_mm"):
            func = torch.ops.transformers.grouped_mm_fallback  # one product a group
            args, kwargs = (*args, (kwargs or {})["offs"]), {}
        return func(*pytree.tree_map(wide, args), **pytree.tree_map(wide, kwargs or {}))


def harvest(output: Any) -> Iterator[torch.Tensor]:
    """The tensors of a model's output, in order; caches are left out."""
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, dict):
        for value in output.values():
            yield from harvest(value)
    elif isinstance(output, (list, tuple)):
        for value in output:
            yield from harvest(value)


def refused(error: BaseException | None) -> bool:
    """Whether strict mode refused the graph."""
    from poot_torch.errors import StrictError

    while error is not None:
        if isinstance(error, StrictError) or "StrictError" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


class ModelTrial:
    """`step(model, fn, arguments)` runs the model through `fn`, the model itself or its compiled form, and yields
    (what it left behind, results)."""

    def __init__(
        self,
        architecture: Architecture,
        dtype: torch.dtype,
        step: Callable[[Any, Any, Any], tuple[Any, Any]],
        *,
        training: bool = False,
        dynamic: bool = False,
    ) -> None:
        self.dtype, self.step, self.training, self.dynamic = dtype, step, training, dynamic
        self.architecture = architecture
        self.strict = True  # whether the last compiled call ran in strict mode
        self._kept: dict[str, tuple[Any, Any]] = {}  # by backend: a model and its compiled form
        self._seed(SEED)

    def _seed(self, seed: int) -> None:
        self.model = self.architecture.build(seed).to(self.dtype).train(self.training)
        arguments = self.architecture.arguments(self.model, seed, labelled=self.training)
        self.arguments = self._cast(arguments, self.dtype)

    def reseed(self, attempt: int) -> bool:
        if attempt < SEEDS:
            self._seed(SEED + attempt)
        return attempt < SEEDS

    @staticmethod
    def _cast(arguments: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
        return {k: v.to(dtype) if v.is_floating_point() else v for k, v in arguments.items()}

    def _call(self, model: Any, fn: Any, arguments: dict[str, torch.Tensor]) -> Outcome:
        given = copied(arguments)
        torch.manual_seed(SEED)
        try:
            left, results = self.step(model, fn, given)
            return Outcome(detached((given, left)), detached(results))
        except Exception as e:
            return Outcome(error=e)

    def eager(self) -> Outcome:
        model = copy.deepcopy(self.model)
        return self._call(model, model, self.arguments)

    def wide(self, eager: Outcome) -> Outcome | None:
        model = copy.deepcopy(self.model).double()
        with WideMode():
            found = self._call(model, model, self._cast(self.arguments, torch.float64))
        return found if found.error is None else None

    def compiled(self, backend: str) -> Outcome:
        """A model compiled for an earlier seed takes the weights of this one."""
        if backend in self._kept:
            model, fn = self._kept[backend]
            model.load_state_dict(self.model.state_dict())
            return self._call(model, fn, self.arguments)
        self.strict = backend == "poot"
        if self.strict:
            found = self._compiled(backend, {"strict": True})
            if not refused(found.error):
                return found
            self.strict = False
        return self._compiled(backend, None)

    def _compiled(self, backend: str, options: dict[str, Any] | None) -> Outcome:
        forget()  # an attempt that strict mode refused, too
        model = copy.deepcopy(self.model)
        dynamic = True if self.dynamic else None
        fn = torch.compile(model, backend=backend, dynamic=dynamic, options=options)
        self._kept = {backend: (model, fn)}
        return self._call(model, fn, self.arguments)
