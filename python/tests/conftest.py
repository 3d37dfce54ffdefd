import pytest
import torch


@pytest.fixture(autouse=True)
def _same_start():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if hasattr(torch, "compiler"):
        torch.compiler.reset()


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "error::pytest.PytestReturnNotNoneWarning")
