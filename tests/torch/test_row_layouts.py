"""Rows of any length through any strides: norms, softmax, cross-entropy and rotary embeddings of transposed tensors."""

import pytest
import torch
from three_way import check as check_all_ways
from three_way import gradients
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("inference")
DTYPES = (torch.float32, torch.bfloat16, torch.float64)
# Short rows are turned in an array, long ones where the result will be; 0: empty.
LENGTHS = (0, 1, 2, 17, 64, 1000, 2100)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def check(fn, *args, **options):
    """In float64 against eager, whose own error nothing tells."""
    check_all_ways(fn, *args, **{"judge": args[0].dtype is not torch.float64, **options})


def rows_across(rows, columns, dtype):
    return torch.randn(columns, rows, dtype=torch.float64).t().to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", LENGTHS)
def test_softmax_and_norms_across_memory(columns, dtype):
    x, w = rows_across(50, columns, dtype), torch.randn(columns).to(dtype)
    if columns > 2:  # over two columns rounding is magnified
        check(lambda x, w: F.gelu(F.layer_norm(x, (x.shape[-1],), w, w)), x, w)
    if columns > 0:
        # PyTorch's decomposition of log_softmax is worse than eager in bf16.
        check(lambda x: (torch.softmax(x * 0.5, -1), torch.log_softmax(x, -1)), x, peer=dtype is not torch.bfloat16)
    check(lambda x, w: (x + w, (x + w) * (x + w).square().mean(-1, keepdim=True).add(1e-6).rsqrt()), x, w)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 16, 33, 300])
def test_numbers_of_rows(rows, dtype):
    check(lambda x: torch.softmax(x, -1), rows_across(rows, 40, dtype))
    check(lambda x: torch.softmax(x, 0), rows_across(rows, 40, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_channels_of_images(dtype):
    x = torch.randn(2, 24, 7, 9).to(dtype)
    check(lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (24,)), x)
    check(lambda x: torch.softmax(x, 1), x.to(memory_format=torch.channels_last))


@pytest.mark.parametrize("columns", [1, 2, 17, 64, 3000])
def test_extremes_stay_in_their_rows(columns):
    x = rows_across(40, columns, torch.float32)
    x[3, 0], x[17, -1], x[31, columns // 2], x[39] = float("inf"), float("nan"), -float("inf"), -float("inf")
    check(lambda x: torch.softmax(x, -1), x, judge=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [1, 17, 4095])
@pytest.mark.parametrize("across", [False, True])
def test_cross_entropy_and_its_gradient(columns, dtype, across):
    rows = 70
    x = rows_across(rows, columns, dtype) if across else torch.randn(rows, columns).to(dtype)
    target = torch.randint(0, columns, (rows,))
    check(F.cross_entropy, x, target)
    with torch.enable_grad():
        gradients(lambda x: F.cross_entropy(x, target), x.requires_grad_())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [17, 512, 70000])
def test_labels_pick_from_their_rows(columns, dtype):
    """Ignored ones in between; one outside the row is refused, as by the gather that PyTorch makes of the loss."""
    x, target = torch.randn(30, columns).to(dtype), torch.randint(0, columns, (30,))
    target[::7] = -100
    check(lambda x, t: (F.cross_entropy(x, t), F.cross_entropy(x, t, reduction="none")), x, target)
    target[5] = columns
    with pytest.raises(RuntimeError, match="index out of range"):
        torch.compile(F.cross_entropy, backend="poot")(x, target)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [2, 6, 34, 64])
def test_rotated_pairs_of_transposed_heads(columns, dtype):
    def rotated(x, cos, sin):
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    x = torch.randn(2, 30, 3, columns).to(dtype).transpose(1, 2)
    angles = torch.rand(30, columns // 2, dtype=torch.float64)
    check(rotated, x, angles.cos().to(dtype), angles.sin().to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_beside_their_columns(dtype):
    def transposed(x):
        y = x - x.mean(-1, keepdim=True)
        return y + 0.5 * y.t()

    def spread(x):
        total = x.sum(-1)
        return (x - total[:, None]) + x * total

    x = torch.randn(16, 16, dtype=torch.float64).to(dtype)
    for fn in (transposed, spread):
        check(fn, x)
