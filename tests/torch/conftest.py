"""`--device cuda` runs these tests on a GPU: tensors that a test makes lie there."""

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where the tests' tensors lie")


# A GPU's fault is the error of a later call.
AT_ONCE = {
    "test_scatter_outside_is_an_error",
    "test_out_of_range_index_raises",
    "test_places_outside_are_eagers_error",  # and eager's error ends the process there
}


@pytest.fixture(autouse=True)
def device(request, monkeypatch):
    name = request.config.getoption("--device")
    if name == "cpu":
        yield name
        return

    class Generator(torch.Generator):
        def __new__(cls, device=name):
            return super().__new__(cls, device=device)

    monkeypatch.setattr(torch, "Generator", Generator)
    if request.node.originalname in AT_ONCE:
        pytest.skip("asks for the error at once")
    with torch.device(name):
        yield name


@pytest.fixture
def inference():
    with torch.no_grad():
        yield


@pytest.fixture
def on_gpu(request):
    """Inference on a GPU; skipped without one."""
    if request.config.getoption("--device") == "cpu":
        pytest.skip("needs a GPU: --device cuda")
    torch._dynamo.reset()
    with torch.no_grad():
        yield
