"""Judges what was seen of a machine: pure, one function a subject.

To add a check: write a function from `Machine` to its results, and name it in `GPU_CHECKS` or
`HOST_CHECKS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from worker.doctor.gpu import GpuState, Version
from worker.doctor.machine import Machine, TorchInstalled

GIB = 2**30
LEAST_SHARED_B = GIB
"""Least size of /dev/shm: sixteen loader processes hold two batches each, of 256 images."""
LEAST_FREE_B, TIGHT_FREE_B = GIB, 10 * GIB
LEAST_OPEN_FILES = 1_024
"""Loader processes hand each tensor over by a descriptor."""
_ARCH = re.compile(r"(?P<kind>sm|compute)_(?P<major>\d+)(?P<minor>\d)[af]?")
NEARLY = 0.99
"""Share of the default power limit; what is below is a choice, or a leftover."""


class Health(StrEnum):
    """Severity of a result."""

    OK = "ok"
    WARNING = "warning"
    """Measuring works; numbers are lower, noisier or later than they could be."""
    ERROR = "error"
    """Cases will fail, or their numbers will be wrong."""


@dataclass(frozen=True)
class HealthCheck:
    """The result of one check: its subject, the severity, the reason, the remedy."""

    subject: str
    health: Health
    sentence: str
    remedy: str = ""


Check = Callable[[Machine], Iterator[HealthCheck]]


def _device(machine: Machine) -> Iterator[HealthCheck]:
    gpu = machine.gpu
    if machine.driver_failed:
        remedy = "See what nvidia-smi says; after an update of the driver, restart the machine."
        yield HealthCheck("driver", Health.ERROR, machine.driver_failed, remedy)
    elif gpu is not None:
        newest = _version(gpu.driver_cuda)
        runs = f", runs CUDA up to {newest}" if newest else ""
        driver = f", driver {gpu.driver}" if gpu.driver else ""
        yield HealthCheck("device", Health.OK, f"{gpu.name}{driver}{runs}.")
    elif machine.device != "cpu":
        sentence = f"The driver tells of no whole GPU that is {machine.device}."
        remedy = "nvidia-smi -L says what there is. A slice of a GPU has no clock and no power."
        yield HealthCheck("device", Health.WARNING, sentence, remedy)
    else:
        plural = "s" if machine.cpus > 1 else ""
        yield HealthCheck("device", Health.OK, f"Measures on {machine.cpus} CPU{plural}.")
    if machine.driverless:
        sentence = "This machine has an NVIDIA GPU, and no driver that tells of it."
        remedy = "Install the driver, or start the container with the GPU (docker run --gpus all)."
        yield HealthCheck("driver", Health.WARNING, sentence, remedy)


def _torch(machine: Machine) -> Iterator[HealthCheck]:
    torch, gpu = machine.torch, machine.gpu
    if machine.torch_failed:
        remedy = 'Look at the Python that measures: pip install "throughline[worker]" has torch.'
        sentence = f"torch cannot be loaded: {machine.torch_failed}"
        yield HealthCheck("torch", Health.ERROR, sentence, remedy)
    if torch is None:
        return
    if machine.device != "cpu" and torch.cuda is None:
        sentence = f"torch {torch.version} was built without CUDA; the device is {machine.device}."
        remedy = "Install a build with CUDA: see pytorch.org/get-started."
        yield HealthCheck("torch", Health.ERROR, sentence, remedy)
    elif gpu is not None and torch.cuda and (wrong := _unfit(torch, torch.cuda, gpu)):
        yield wrong
    elif torch.refused:
        sentence = f"torch {torch.version} cannot use CUDA: {torch.refused}"
        yield HealthCheck("torch", Health.ERROR, sentence, "See what nvidia-smi says.")
    else:
        built = f" for CUDA {torch.cuda}" if torch.cuda else " without CUDA"
        yield HealthCheck("torch", Health.OK, f"torch {torch.version}{built}.")
    for name, wanted, has in torch.misfits:
        sentence = f"torch {torch.version} was built with {name} {wanted}; here is {has}."
        remedy = f"If it is not wanted: pip install {name}=={wanted}"
        yield HealthCheck("packages", Health.WARNING, sentence, remedy)


def _unfit(torch: TorchInstalled, cuda: str, gpu: GpuState) -> HealthCheck | None:
    """Say why this torch, built for ``cuda``, cannot use the GPU."""
    major = int(cuda.partition(".")[0])
    if gpu.driver_cuda is not None and major > gpu.driver_cuda[0]:
        runs = _version(gpu.driver_cuda)
        sentence = f"torch {torch.version} needs CUDA {cuda}, and driver {gpu.driver} runs {runs}."
        remedy = f"Update the driver, or install torch for CUDA {gpu.driver_cuda[0]}."
        return HealthCheck("torch", Health.ERROR, sentence, remedy)
    if gpu.capability is not None and torch.archs and not _has_kernels(torch.archs, gpu.capability):
        sentence = (
            f"torch {torch.version} has kernels for {', '.join(torch.archs)}, and this {gpu.name} "
            f"has compute capability {_version(gpu.capability)}."
        )
        return HealthCheck("torch", Health.ERROR, sentence, "Install another build of torch.")
    return None


def _has_kernels(archs: tuple[str, ...], capability: Version) -> bool:
    """Machine code runs on later GPUs of the same major version, PTX on all later ones."""
    for found in filter(None, map(_ARCH.fullmatch, archs)):
        has = (int(found["major"]), int(found["minor"]))
        if has <= capability and (found["kind"] == "compute" or has[0] == capability[0]):
            return True
    return False


def _compiling(machine: Machine) -> Iterator[HealthCheck]:
    torch = machine.torch
    if not machine.compiler:
        sentence = "There is no C++ compiler (CXX, g++): cases with compile= will fail."
        yield HealthCheck("compiler", Health.WARNING, sentence, "apt-get install g++")
    if torch is not None and not torch.headers:
        sentence = "Python's headers are missing: cases with compile= will fail."
        remedy = "Install them for the Python that measures, as apt-get install python3-dev does."
        yield HealthCheck("compiler", Health.WARNING, sentence, remedy)
    if machine.recompiled is not None:
        sentence = "Python keeps no bytecode of torch, so processes compile it again, for seconds."
        remedy = f"python -m compileall -q {machine.recompiled}"
        yield HealthCheck("bytecode", Health.WARNING, sentence, remedy)


def _gpu(machine: Machine) -> Iterator[HealthCheck]:
    if machine.gpu is not None:
        yield from _health(machine.gpu)
        yield from _speed(machine.gpu)
        yield from _neighbours(machine.gpu)


def _health(gpu: GpuState) -> Iterator[HealthCheck]:
    if gpu.memory_errors:
        sentence = f"The GPU could not correct {gpu.memory_errors} errors of its memory."
        remedy = "Reset it while nobody uses it; if it happens again, have it replaced."
        yield HealthCheck("memory", Health.ERROR, sentence, remedy)
    if gpu.repair_pending:
        sentence = "The GPU replaces faulty rows of its memory at its next reset."
        yield HealthCheck("memory", Health.ERROR, sentence, "Reset it while nobody uses it.")
    if gpu.repair_failed:
        sentence = "The GPU could not replace faulty rows of its memory."
        yield HealthCheck("memory", Health.ERROR, sentence, "Have it replaced.")
    if gpu.held_back:
        sentence = f"The GPU slows itself down now: {', '.join(gpu.held_back)}."
        yield HealthCheck("clock", Health.WARNING, sentence, "Look at its cooling and its power.")


def _speed(gpu: GpuState) -> Iterator[HealthCheck]:
    limit_w, usual_w = gpu.power_limit_w, gpu.default_power_limit_w
    if limit_w and usual_w and limit_w < NEARLY * usual_w:
        sentence = f"The GPU may draw {limit_w:.0f} W; by default it may draw {usual_w:.0f} W."
        remedy = f"nvidia-smi -pl {usual_w:.0f}, if wanted"
        yield HealthCheck("power", Health.WARNING, sentence, remedy)
    limit_mhz, usual_mhz = gpu.clock_limit_mhz, gpu.default_clock_limit_mhz
    if limit_mhz and usual_mhz and limit_mhz < NEARLY * usual_mhz:
        sentence = f"The GPU's clock is limited to {limit_mhz} MHz; by default to {usual_mhz} MHz."
        yield HealthCheck("clock", Health.WARNING, sentence, "nvidia-smi -rac, if wanted")
    if gpu.pcie_lanes and gpu.most_pcie_lanes and gpu.pcie_lanes < gpu.most_pcie_lanes:
        sentence = f"The GPU uses {gpu.pcie_lanes} of its {gpu.most_pcie_lanes} PCIe lanes."
        remedy = "Unless it uses all of them at work, copies are slower: look at its slot."
        yield HealthCheck("pcie", Health.WARNING, sentence, remedy)
    if gpu.persistent is False:
        sentence = "The driver unloads between processes, so each one starts later."
        yield HealthCheck("driver", Health.WARNING, sentence, "nvidia-smi -pm 1")


def _neighbours(gpu: GpuState) -> Iterator[HealthCheck]:
    if gpu.mig:
        sentence = "The GPU is cut into slices (MIG), which have no clock of their own."
        remedy = "Other slices make numbers noisier."
        yield HealthCheck("neighbours", Health.WARNING, sentence, remedy)
    if gpu.processes:
        sentence = f"Programs that use the GPU now: {gpu.processes}."
        remedy = "Results beside them are flagged other_processes."
        yield HealthCheck("neighbours", Health.WARNING, sentence, remedy)
    if gpu.near_cpus is False:
        sentence = "No CPU near the GPU (of its NUMA node) is allowed here, which slows copies."
        remedy = "Give this worker CPUs beside its GPU: nvidia-smi topo -m"
        yield HealthCheck("numa", Health.WARNING, sentence, remedy)


def _host(machine: Machine) -> Iterator[HealthCheck]:
    if machine.governor not in ("", "performance"):
        sentence = f"The CPUs' governor is {machine.governor}: their clock follows the load."
        yield HealthCheck("cpu", Health.WARNING, sentence, "cpupower frequency-set -g performance")
    shared_b = machine.shared_memory_b
    if shared_b is not None and shared_b < LEAST_SHARED_B:
        health = Health.WARNING if machine.gpu is None else Health.ERROR
        sentence = f"Large batches crash loader processes: /dev/shm has only {_gib(shared_b)}."
        remedy = "Give the container more: docker run --shm-size=8g"
        yield HealthCheck("shared memory", health, sentence, remedy)
    if 0 <= machine.open_files < LEAST_OPEN_FILES:
        sentence = f"A process may open {machine.open_files} files: many loader processes fail."
        yield HealthCheck("open files", Health.WARNING, sentence, "ulimit -n 65536")


def _disk(machine: Machine) -> Iterator[HealthCheck]:
    if not machine.temporary:
        sentence = "No folder for temporary files can be written."
        yield HealthCheck("disk", Health.ERROR, sentence, "Make room, or set TMPDIR.")
    for folder, free_b in sorted((machine.free_b or {}).items()):
        if free_b >= TIGHT_FREE_B:
            continue
        health = Health.ERROR if free_b < LEAST_FREE_B else Health.WARNING
        sentence = f"{folder} has {_gib(free_b)} free; data and compiled code take some."
        yield HealthCheck("disk", health, sentence, "Make room there, or name another folder.")


GPU_CHECKS: tuple[Check, ...] = (_device, _gpu)
HOST_CHECKS: tuple[Check, ...] = (_torch, _compiling, _host, _disk)
CHECKS = (*GPU_CHECKS, *HOST_CHECKS)


def examined(machine: Machine, checks: Sequence[Check] = CHECKS) -> list[HealthCheck]:
    """The results of ``checks``, in the order in which a person would look."""
    return [result for check in checks for result in check(machine)]


def _version(version: Version | None) -> str:
    return ".".join(map(str, version)) if version else ""


def _gib(size_b: int) -> str:
    return f"{size_b / GIB:.1f} GiB"
