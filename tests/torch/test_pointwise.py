"""Pointwise operators: many to a graph, each result judged on its own."""

import pytest
import torch
from three_way import check

F = torch.nn.functional
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def spread(dtype, shape=(6, 37), scale=3.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=g) * scale).to(dtype)


@torch.no_grad()
def test_formulas_have_eagers_bits(device):
    """Where eager's vectors compute them from exponentials of their own, or round a product and a sum once."""
    if device != "cpu":
        pytest.skip("eager's kernels of a GPU have exponentials of their own")
    aten = torch.ops.aten

    def fn(x, y, g, h):
        return {
            "sigmoid": x.sigmoid(),
            "silu": F.silu(x),
            "addcmul": torch.addcmul(x, y, g),
            "addcmul_value": torch.addcmul(x, y, g, value=0.3),
            "tanh_backward": aten.tanh_backward(g, h),
            "sigmoid_backward": aten.sigmoid_backward(g, h),
            "silu_backward": aten.silu_backward(g, x),
            "softplus_backward": aten.softplus_backward(g, x, 1.0, 20.0),
        }

    x, y, g = (spread(torch.float32, (64, 1024), seed=i) for i in range(3))
    h = x.tanh()
    torch._dynamo.reset()
    made, expected = torch.compile(fn, backend="poot", dynamic=False)(x, y, g, h), fn(x, y, g, h)
    assert [k for k in made if not torch.equal(made[k], expected[k])] == []


@pytest.mark.parametrize("dtype", FLOATS)
@torch.no_grad()
def test_unary(dtype):
    def fn(x, p):
        return {
            "neg": -x,
            "abs": x.abs(),
            "sign": x.sign(),
            "exp": x.exp(),
            "exp2": x.exp2(),
            "expm1": x.expm1(),
            "log": p.log(),
            "log2": p.log2(),
            "log10": p.log10(),
            "log1p": p.log1p(),
            "sqrt": p.sqrt(),
            "rsqrt": p.rsqrt(),
            "reciprocal": p.reciprocal(),
            "sin": x.sin(),
            "cos": x.cos(),
            "tanh": x.tanh(),
            "sigmoid": x.sigmoid(),
            "erf": x.erf(),
            "floor": x.floor(),
            "ceil": x.ceil(),
            "trunc": x.trunc(),
            "round": x.round(),
        }

    check(fn, spread(dtype), spread(dtype).abs() + 0.1, peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
@torch.no_grad()
def test_activations(dtype):
    def fn(x):
        return {
            "relu": F.relu(x),
            "silu": F.silu(x),
            "gelu": F.gelu(x),
            "gelu_tanh": F.gelu(x, approximate="tanh"),
            "hardswish": F.hardswish(x),
            "hardsigmoid": F.hardsigmoid(x),
            "hardtanh": F.hardtanh(x, -0.3, 0.7),
            "relu6": F.relu6(x),
            "leaky_relu": F.leaky_relu(x, 0.1),
            "elu": F.elu(x, 1.3),
            "selu": F.selu(x),
            "celu": F.celu(x, 1.2),
            "softplus": F.softplus(x),
            "mish": F.mish(x),
            "threshold": F.threshold(x, 0.25, -1.0),
            "logsigmoid": F.logsigmoid(x),
            "tanhshrink": F.tanhshrink(x),
        }

    check(fn, spread(dtype), peer=False)


@pytest.mark.parametrize("dtype", FLOATS)
@torch.no_grad()
def test_binary_and_scalars(dtype):
    def fn(x, y, row):
        return {
            "add": x + y,
            "add_scalar": x + 0.1,
            "add_alpha": torch.add(x, y, alpha=0.3),
            "sub_alpha": torch.sub(x, y, alpha=2),
            "rsub": 1.1 - x,
            "mul": x * y,
            "mul_scalar": x * 0.1,
            "mul_int": x * 3,
            "div": x / y,
            "div_scalar": x / 3,
            "div_trunc": torch.div(x, y, rounding_mode="trunc"),
            "div_floor": torch.div(x, y, rounding_mode="floor"),
            "remainder": torch.remainder(x, 0.75),
            "fmod": torch.fmod(x, 0.75),
            "maximum": torch.maximum(x, y),
            "fmax": torch.fmax(x, y),
            "minimum": torch.minimum(x, y),
            "atan2": torch.atan2(x, y),
            "copysign": torch.copysign(x, y),
            "square": x**2,
            "cube": x**3,
            "pow": (x.abs() + 0.5) ** 1.7,
            "root": x.abs() ** 0.5,
            "inverse_root": (x.abs() + 0.5) ** -0.5,
            "inverse_square": (x.abs() + 0.5) ** -2,
            "pow_tensor": (x.abs() + 0.5) ** y,
            "two_to": 2.0**x,
            "broadcast": x * row + row[:1],
            "lerp": torch.lerp(x, y, 0.3),
            "lerp_far": torch.lerp(x, y, 0.8),
            "addcmul": torch.addcmul(x, x, y, value=0.7),
            "addcdiv": torch.addcdiv(x, x, y, value=0.7),
            "clamp": x.clamp(-0.7, 1.3),
            "clamp_min": x.clamp(min=0.1),
            "clamp_tensor": torch.clamp(x, row, row + 1),
            "where": torch.where(x > 0, x, y),
            "where_scalar": torch.where(x > 0, x, -1.5),
            "masked_fill": x.masked_fill(y > 0, float("-inf")),
            "isnan": torch.isnan(x / 0),
            "isinf": torch.isinf(x / 0),
            "isfinite": torch.isfinite(x / 0),
            "nan_to_num": torch.nan_to_num(x / 0, 1.0, 2.0, 3.0),
            "compare": (x < y) | (x >= 0.5) & (x != y),
            "logical": torch.logical_and(x, y) ^ torch.logical_not(x),
        }

    y = spread(dtype, seed=1)
    check(fn, spread(dtype), torch.where(y.abs() < 0.1, 0.5, y), spread(dtype, (37,), seed=2), peer=False)


@torch.no_grad()
def test_integers_and_bools():
    def fn(a, b, c):
        return {
            "sum": a + b * 3 - 1,
            "floor": a // 3,
            "trunc": torch.div(a, 4, rounding_mode="trunc"),
            "mod": a % 5,
            "fmod": torch.fmod(a, 5),
            "true_div": a / 4,
            "bits": (a & b) | (a ^ b) | ~a,
            "shift": (a << 2) + (a >> 1),
            "pow": a**2 + a**3,
            "abs": a.abs() + a.sign(),
            "bools": c & (a > 0) | ~c,
            "bool_sum": c + (a > 0),
            "sin": a.sin(),
            "narrow": a.to(torch.int32) + 1,
            "max": torch.maximum(a, b).clamp(-2, 3),
            "mixed": a * 0.5 + b.to(torch.float32),
            "from_float": (b.to(torch.float32) * 1.7).to(torch.int64),
        }

    g = torch.Generator().manual_seed(0)
    a = torch.randint(-20, 20, (5, 9), generator=g)
    b = torch.randint(-20, 20, (5, 9), generator=g)
    check(fn, a, b, a > b, peer=False, judge=False)


@torch.no_grad()
def test_promotion_and_zero_dim():
    def fn(h, f, i, s):
        return h + f, h * i, h * s, f * 2, i * 1.5, s * h + s, torch.where(i > 0, h, f)

    check(
        fn,
        spread(torch.bfloat16, (3, 4)),
        spread(torch.float32, (3, 4), seed=1),
        torch.arange(12).reshape(3, 4) - 5,
        torch.tensor(0.3),
    )


@torch.no_grad()
def test_odd_layouts():
    x = torch.randn(4, 6, 10)

    def fn(t, u, w):
        return t + 1, t * u, w.exp(), (t + w[..., :1])

    check(fn, x.transpose(0, 2), x.permute(2, 1, 0).contiguous(), torch.randn(20, 6, 8)[::2, :, ::2])
    empty = torch.randn(0, 3)
    check(lambda a: (a + 1, a.sum(), a.sum(0)), empty)


@torch.no_grad()
def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 1e-40, 3.4e38])

    def fn(x):
        return {
            "relu": torch.relu(x),
            "max": torch.maximum(x, torch.zeros_like(x)),
            "neg_zero": x * -1,
            "copysign": torch.copysign(torch.ones_like(x), x),
            "sigmoid": x.sigmoid(),
            "tanh": x.tanh(),
            "exp": x.exp(),
            "log": x.log(),
            "clamp": x.clamp(-1, 1),
            "sqrt": x.sqrt(),
        }

    check(fn, x, peer=False)


@torch.no_grad()
def test_hardtanh_of_integers_stays_integral():
    for dtype in (torch.int32, torch.int64):
        x = torch.arange(-6, 7, dtype=dtype)
        check(lambda x: (F.hardtanh(x), F.hardtanh(x, -2.7, 3.2)), x, peer=False)
