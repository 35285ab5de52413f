"""Every operator of PyTorch's op_db through torch.compile(backend="poot"), against eager.

python -m qualification ops --only add nn.functional.gelu --dtype f32 bf16
python -m qualification ops --sample                                    # the fixed list of continuous integration
"""

from __future__ import annotations

from qualification import sweep
from qualification.cases import Group, Suite
from qualification.op_cases import scope
from qualification.op_run import runs, together

_SCRIPT = '''"""{case}, without the suite: python THIS_FILE"""

import itertools

import torch
from torch.testing._internal.common_methods_invocations import op_db

info = next(i for i in op_db if i.full_name == {subject!r})
inputs = info.sample_inputs("cpu", {dtype}, requires_grad={grad})
sample = next(itertools.islice(inputs, {index}, None))
{change}op = {op}


def fn(*args, **kwargs):
    return op(*args, **kwargs)


args = (sample.input, *sample.args)
print("arguments:", args, sample.kwargs)
torch.manual_seed(0)
print("eager:", fn(*args, **sample.kwargs))
torch.manual_seed(0)
print("poot:", torch.compile(fn, backend="poot", dynamic={dynamic})(*args, **sample.kwargs))
'''


def reproducer(group: Group, index: int) -> str:
    from qualification.cases import DTYPES

    return _SCRIPT.format(
        case=group.case(index),
        subject=group.subject,
        dtype=DTYPES[group.dtype],
        grad=group.mode == "grad",
        index=index,
        change="sample = sample.noncontiguous()\n" if group.mode == "noncontiguous" else "",
        op="info.inplace_variant" if group.mode == "inplace" else "info.get_op()",
        dynamic=True if group.mode == "dynamic" else None,
    )


SUITE = Suite("ops", __doc__, scope, runs, reproducer, together=together)


def main(argv: list[str] | None = None) -> int:
    return sweep.main(SUITE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
