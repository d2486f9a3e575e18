"""Hardware and software fingerprint of the process that measures."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import itertools
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.contracts import Environment
from benchmarks.cpus import usable_cpus

_PACKAGES = (
    *("numpy", "pillow", "torchvision", "triton", "pytorch-triton"),
    *("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
)
"""Named one by one beside the digest over all, because they explain changes of speed."""
_VARIABLES = (
    *("CUDA_", "CUDNN_", "CUBLAS_", "NCCL_", "NVIDIA_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_"),
    *("TRITON_", "OMP_", "GOMP_", "MKL_", "KMP_", "MALLOC_", "LD_PRELOAD"),
)
"""Variables of the environment that change speed begin so."""
_PRIVATE = ("CACHE", "TOKEN", "SECRET", "PASSWORD", "KEY")
"""Such variables differ on every run or must not leave the machine."""


def capture(device: torch.device, flags: dict[str, str], data_name: str) -> Environment:
    """Describe this node and this process; ``flags`` are the facts of
    `benchmarks.measure.flags`."""
    facts = dict(flags)
    facts |= {f"hw.{name}": value for name, value in _hardware(device)}
    facts |= {f"sw.{name}": value for name, value in _software()}
    facts |= {"sw.data": data_name}
    return Environment(facts={name: _line(value) for name, value in facts.items() if value})


def _line(value: str) -> str:
    return "".join(c if c.isprintable() else " " for c in value)[:500]


def _hardware(device: torch.device) -> Iterator[tuple[str, str]]:
    yield "device", device.type
    yield "host", platform.node()
    yield "arch", platform.machine()
    yield "cpu.model", _cpu_model()
    yield "cpu.count", str(os.cpu_count())
    yield "cpu.usable", str(usable_cpus())
    yield "cpu.set", ",".join(_ranges(sorted(os.sched_getaffinity(0))))
    yield "cpu.quota", _read("/sys/fs/cgroup/cpu.max")
    yield "cpu.governor", _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    yield "memory_b", str(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    yield "numa_nodes", str(len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1)
    if device.type == "cuda":
        yield from _gpu(device)


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"


def _gpu(device: torch.device) -> Iterator[tuple[str, str]]:
    properties = torch.cuda.get_device_properties(device)
    yield "gpu.name", properties.name
    yield "gpu.sm_count", str(properties.multi_processor_count)
    yield "gpu.memory_b", str(properties.total_memory)
    yield "gpu.capability", f"{properties.major}.{properties.minor}"
    yield "gpu.count", str(torch.cuda.device_count())
    yield "gpu.uuid", f"GPU-{properties.uuid}"
    yield from _nvml(f"GPU-{properties.uuid}")


def _nvml(uuid: str) -> Iterator[tuple[str, str]]:
    """Yield the facts that only the driver's management library knows; none if it is missing."""
    try:
        import pynvml  # noqa: PLC0415 - absent on machines without an NVIDIA GPU

        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except Exception:  # a fingerprint is never worth a failed measurement
        return
    readings = {
        "gpu.driver": pynvml.nvmlSystemGetDriverVersion,
        "gpu.vbios": lambda: pynvml.nvmlDeviceGetVbiosVersion(gpu),
        "gpu.power_limit_w": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) // 1000,
        "gpu.max_sm_clock_hz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, 1) * 10**6,
        "gpu.max_memory_clock_hz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, 2) * 10**6,
        "gpu.ecc": lambda: pynvml.nvmlDeviceGetEccMode(gpu)[0],
        "gpu.mig": lambda: "on" if pynvml.nvmlDeviceGetMigMode(gpu)[0] else "off",
        "gpu.pcie_generation": lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
        "gpu.memory_bus_bits": lambda: pynvml.nvmlDeviceGetMemoryBusWidth(gpu),
        "gpu.pcie_width": lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
    }
    for name, read in readings.items():
        with contextlib.suppress(pynvml.NVMLError):
            yield name, str(read())


def _software() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    yield "torch", torch.__version__
    yield "torch_git", str(torch.version.git_version)
    yield "cuda", torch.version.cuda or ""
    if torch.version.cuda:
        yield "cudnn", str(torch.backends.cudnn.version() or "")  # type: ignore[no-untyped-call]
    yield "kernel", platform.release()
    yield "os", _os_name()
    yield "libc", "-".join(platform.libc_ver())
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"package.{package}", importlib.metadata.version(package)
    yield "packages", _packages_digest()
    yield "benchmarks", _benchmarks_digest()
    # A process cannot see which image it runs in: whoever starts the container says so.
    yield "container", os.environ.get("THROUGHLINE_IMAGE", "")
    for name in sorted(os.environ):
        if name.startswith(_VARIABLES) and not any(word in name for word in _PRIVATE):
            yield f"env.{name}", os.environ[name]


def _packages_digest() -> str:
    path = [place for place in sys.path if Path(place).parts[-2:] != ("setuptools", "_vendor")]
    distributions = importlib.metadata.distributions(path=path)
    frozen = sorted({f"{d.metadata['Name']}=={d.version}" for d in distributions})
    return hashlib.sha256("\n".join(frozen).encode()).hexdigest()[:16]


def _benchmarks_digest() -> str:
    """One digest over the code that measures, so that a change of it shows as a change.

    Not the commit: that differs with every change of a document, and would mark every point.
    """
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(here.rglob("*.py")):
        digest.update(str(path.relative_to(here)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or platform.machine()


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
