"""The page of benchmark results holds a plot and a row for every measurement."""

import pytest

from qualification.page import page

FIGURES = {"ratio": 1.5, "p10": 1.2, "p90": 1.9, "microseconds": {"eager": 30.0, "inductor": 15.0, "poot": 10.0}}
HEAD = {"torch": "2.13.0", "threads": 2}


def test_models_and_kernels_have_their_plots():
    models = HEAD | {"rows": [{"model": "bert", "dtype": "fp32", **FIGURES}]}
    kernels = HEAD | {
        "rows": [{"row": "softmax", "size": "full", "dtype": "bf16", "hot": FIGURES, "rotating": FIGURES}]
    }
    text = page([models, kernels])
    assert text.count("<svg") == 3 and text.count("<table>") == 3
    assert "bert fp32" in text and "Kernels, full, rotating" in text and "1.50 (1.20–1.90)" in text


def test_other_files_are_refused():
    with pytest.raises(ValueError, match="bench or memory_bound"):
        page([HEAD | {"rows": [{"name": "x"}]}])
