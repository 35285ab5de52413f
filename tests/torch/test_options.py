"""What a user may pass, and what they are told when it is wrong."""

import pytest
import torch

from poot_torch import OptionError, PootError, StrictError, TargetAbsentError
from poot_torch.backend import poot
from poot_torch.options import ABSENT_TARGETS, MODES, TARGETS, Options, parse


def test_defaults_and_modes():
    assert parse(None, None) == Options()
    for mode in MODES:
        assert parse(mode, {}) == Options(capture_libraries=mode != "max-autotune-no-cudagraphs")
    assert parse(None, {"strict": True, "fuse": False}) == Options(strict=True, fuse=False)


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        (None, {"stirct": True}, "nearest: 'strict'"),
        (None, {"fuze": False}, "nearest: 'fuse'"),
        ("max-autotun", None, "nearest: 'max-autotune'"),
        (None, {"target": "cpuu"}, "nearest: 'cpu'"),
        (None, {"target": "cudaa"}, "nearest: 'cuda'"),
        (None, {"strict": 1}, "takes bool"),
        (None, {"memory_limit_bytes": -1}, "must not be negative"),
    ],
)
def test_wrong_options_name_the_nearest(mode, options, words):
    with pytest.raises(OptionError, match=words):
        parse(mode, options)


@pytest.mark.parametrize(("target", "missing"), [("vulkan", "SPIR-V"), ("amd", "AMDGPU")])
def test_absent_targets_name_what_is_missing(target, missing):
    with pytest.raises(TargetAbsentError, match=f"target absent: '{target}': .*{missing}"):
        parse(None, {"target": target})
    assert target in ABSENT_TARGETS and target not in TARGETS


def test_wrong_option_reaches_the_user():
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="nearest: 'strict'"):
        torch.compile(lambda x: x + 1, backend=poot, options={"stric": True})(torch.ones(2))


def test_errors_have_one_base():
    assert issubclass(StrictError, PootError) and issubclass(OptionError, ValueError)


def test_strict_names_operator_dtypes_and_line():
    torch._dynamo.reset()

    def fn(x):
        return x.double().view(torch.int64) + 1

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as failure:
        torch.compile(fn, backend=poot, options={"strict": True})(torch.eye(3))
    message = str(failure.value)
    assert "StrictError" in message
    assert "aten.view.dtype(f64): no lowering" in message
    assert "test_options.py" in message and "return x.double().view(torch.int64) + 1" in message


def test_strict_names_what_complex_numbers_lack():
    torch._dynamo.reset()
    x = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="c64.*no lowering of complex numbers"):
        torch.compile(lambda x: x.logcumsumexp(0), backend=poot, options={"strict": True})(x)


def test_memory_limit_is_an_error_not_a_silent_fallback():
    import poot_torch

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * 2 + 1, backend="poot", options={"memory_limit_bytes": 1024})
    with pytest.raises(Exception, match="1024|limit"):
        compiled(torch.randn(1000))
    assert compiled(torch.randn(16)).shape == (16,)
    assert not poot_torch.last_report().fallbacks
