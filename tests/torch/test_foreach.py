"""Operators over lists of tensors are generated kernels."""

import pytest
import torch

STRICT = {"strict": True}
SHAPES = ((5, 7), (33,), ())


def tensors(scale=1.0):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(s, generator=generator) * scale for s in SHAPES]


CASES = {
    "add scalar": lambda a, b: torch._foreach_add(a, 1.5),
    "add list, alpha": lambda a, b: torch._foreach_add(a, b, alpha=0.3),
    "add scalars": lambda a, b: torch._foreach_add(a, [1.0, 2.0, 3.0]),
    "mul tensor": lambda a, b: torch._foreach_mul(a, torch.tensor(0.7)),
    "addcmul": lambda a, b: torch._foreach_addcmul(a, b, b, value=0.1),
    "addcdiv scalars": lambda a, b: torch._foreach_addcdiv(a, b, b, [0.1, 0.2, 0.3]),
    "lerp": lambda a, b: torch._foreach_lerp(a, b, 0.25),
    "maximum": lambda a, b: torch._foreach_maximum(a, b),
    "clamp": lambda a, b: torch._foreach_clamp_min(a, 0.1),
    "pow": lambda a, b: torch._foreach_pow(2.0, a),
    "sqrt": lambda a, b: torch._foreach_sqrt(torch._foreach_abs(a)),
}


ROUNDED = ("addcmul", "addcdiv scalars", "pow")  # within an ulp, as of their operators on one tensor


@pytest.mark.parametrize("name", CASES)
def test_list_operators(name):
    fn = CASES[name]
    torch._dynamo.reset()
    got = torch.compile(fn, backend="poot", options=STRICT)(tensors(), tensors(2.0))
    want = fn(tensors(), tensors(2.0))
    if name == "sqrt":  # eager's is within an ulp on some processors: the exact one is asked for
        want = [torch.sqrt(a.double().abs()).float() for a in tensors()]
    if name in ROUNDED:
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)
    else:
        assert all(torch.equal(g, w) for g, w in zip(got, want, strict=True)), name


def test_norms_of_a_list():
    torch._dynamo.reset()
    got = torch.compile(lambda a: torch._foreach_norm(a), backend="poot", options=STRICT)(tensors())
    torch.testing.assert_close(got, torch._foreach_norm(tensors()))


def test_list_updated_in_place():
    def fn(a, b):
        torch._foreach_mul_(a, 0.9)
        torch._foreach_add_(a, b, alpha=0.1)

    ours, eager = tensors(), tensors()
    torch._dynamo.reset()
    torch.compile(fn, backend="poot", options=STRICT)(ours, tensors(2.0))
    fn(eager, tensors(2.0))
    for g, w in zip(ours, eager, strict=True):
        assert torch.equal(g, w)


def test_compiled_optimizer_step_is_strict():
    def params():
        torch.manual_seed(0)
        made = [torch.nn.Parameter(torch.randn(s)) for s in SHAPES]
        for p in made:
            p.grad = torch.randn_like(p)
        return made

    results = []
    for compiled in (False, True):
        torch._dynamo.reset()
        given = params()
        optimizer = torch.optim.AdamW(given, lr=1e-2, foreach=True)
        step = torch.compile(optimizer.step, backend="poot", options=STRICT) if compiled else optimizer.step
        for _ in range(3):
            step()
        results.append([p.detach() for p in given])
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)
