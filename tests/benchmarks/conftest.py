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
    yield
    torch.set_num_threads(before)
