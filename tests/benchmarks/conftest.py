import gc
import importlib
import os
from collections.abc import Iterator

# torch's compiler would first try five instruction sets, with two seconds of a C++ compiler for
# each, and make a header for kernels of which most tests have one. It reads this when imported.
os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "0"
os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread_of_arithmetic() -> Iterator[None]:
    """Small models gain nothing from more, and lose much where tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")  # every optimizer does: then it is frozen below
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _little_to_collect() -> None:
    """Measuring collects garbage before a pass; through all of the suite that takes half a second.

    It thaws what was frozen as well, so each test freezes anew.
    """
    gc.freeze()
