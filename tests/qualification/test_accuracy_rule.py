"""How models are judged: each bound refuses what it should, seeds gather, and chance counts on both sides."""

import pytest
import torch

from qualification.accuracy_rule import AccuracyRule
from qualification.op_judge import Wrong
from qualification.rules import Unsettled

EPS = torch.finfo(torch.float32).eps


def tensors(ours_ulp, eager_ulp, n=1000, scale=1024.0):
    """(poot's, eager's, float64's), with errors of so many units of the last place at the tensor's scale."""
    reference = torch.linspace(-scale, scale, n, dtype=torch.float64).float().double()
    unit = EPS * scale
    return (reference + ours_ulp * unit).float(), (reference + eager_ulp * unit).float(), reference


def judged(*errors, name="result 0", rule=None):
    rule = rule or AccuracyRule()
    for ours, eager in errors:
        rule.values(name, *tensors(ours, eager))
    return rule


def test_as_good_as_eager_passes_and_chance_counts_on_both_sides():
    rule = AccuracyRule()
    for i, (ours, eager) in enumerate(((1, 1), (4, 2), (2, 4), (2, 2))):
        rule.values(f"result {i}", *tensors(ours, eager))
    rule.finish()
    assert rule.tally == {"tensors": 4, "beyond": 1, "eager_beyond": 1}


def test_a_tensor_outside_the_tolerance_with_over_twice_the_error_is_unsettled():
    rule = judged((20, 8))
    rule.values("result 1", *tensors(1, 20, n=100_000))  # the pool alone would pass
    with pytest.raises(Unsettled, match="1 tensors outside the tolerance .* result 0: 20 ulp"):
        rule.finish()
    judged((1, 12), (2, 3), rule=rule).finish()  # other seeds, under which poot is as good


def test_the_pool_is_held_to_one_and_a_half_times():
    with pytest.raises(Unsettled, match="over 1000 numbers"):
        judged((6, 3.5)).finish()
    judged((6, 5)).finish()
    judged((6, 3.5), name="argument 0").finish()  # of what is left behind each tensor is judged, not the pool


def test_gross_errors_are_wrong_at_once_however_small_the_values():
    got, want, reference = tensors(100, 1, scale=1e-9)
    with pytest.raises(Wrong, match="error"):
        AccuracyRule().values("result 0", got, want, reference)


def test_nan_integers_and_missing_references():
    nan = torch.tensor([1.0, float("nan")])
    rule = AccuracyRule()
    rule.values("result 0", nan, nan, None)
    assert rule.tally == {"without_reference": 1}
    with pytest.raises(Wrong, match="not finite"):
        rule.values("result 0", torch.ones(2), nan, nan.double())
    with pytest.raises(Wrong):
        rule.values("result 0", torch.tensor([1, 2]), torch.tensor([1, 3]), None)
