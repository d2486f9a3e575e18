"""The operator in CUDA C++. `cuda_kernels.cu` is built on first use, and has nothing for a CPU."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from benchmarks.catalog.catalog import Refused
from benchmarks.data.cache import made_once
from benchmarks.workload import Context
from wordmodel.cross_entropy import describe

LIBRARY = "wordmodel_cuda"
SOURCE = Path(__file__).with_suffix(".cu")


def load(context: Context) -> None:
    """Give this process the operators. The first process builds them, and others wait for it.

    Raises:
        Refused: the device is no GPU, or nvcc is not there.
    """
    if context.device.type != "cuda":
        raise Refused("kernel=cuda needs device=cuda, and this worker has device=cpu.")
    if hasattr(getattr(torch.ops, LIBRARY), "cross_entropy"):
        return
    capability = torch.cuda.get_device_capability(context.device)
    made_of = repr((SOURCE.read_text(), torch.__version__, capability))
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    folder = made_once(context.cache / LIBRARY / digest, "the CUDA kernels", _build)
    torch.ops.load_library(folder / f"{LIBRARY}.so")
    describe(LIBRARY)


def _build(folder: Path) -> None:
    from torch.utils import cpp_extension  # noqa: PLC0415 - slow to import

    home = cpp_extension.CUDA_HOME
    if home is None or not Path(home, "bin", "nvcc").exists():
        raise Refused("kernel=cuda needs nvcc on the PATH, or CUDA's folder in CUDA_HOME.")
    options = {"build_directory": str(folder), "is_python_module": False}
    cpp_extension.load(LIBRARY, [str(SOURCE)], **options)
