"""Judges what was seen of a machine: pure, one function a subject.

To add a check: write a function from `Machine` to its results, and name it in `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from worker.doctor.gpu import GpuState, Version
from worker.doctor.machine import Machine

GIB = 2**30
LEAST_SHARED_B = GIB
"""Of /dev/shm: sixteen loader processes with two batches of 256 images each hold more than that."""
LEAST_FREE_B, TIGHT_FREE_B = GIB, 10 * GIB
LEAST_OPEN_FILES = 1_024
"""Loader processes hand each tensor over by a descriptor."""
NEARLY = 0.99
"""Share of the default power limit; what is below is a choice, or a leftover."""


class Health(StrEnum):
    """The health of one subject."""

    OK = "ok"
    WARNING = "warning"
    """Measuring works; numbers are lower, noisier or later than they could be."""
    ERROR = "error"
    """Cases will fail, or their numbers will be wrong."""


@dataclass(frozen=True)
class HealthCheck:
    """What is known of one subject, and what to do if it is not well."""

    subject: str
    health: Health
    sentence: str
    remedy: str = ""


Check = Callable[[Machine], Iterator[HealthCheck]]


def examined(machine: Machine) -> list[HealthCheck]:
    """The result of every check, in the order in which a person would look."""
    return [result for check in CHECKS for result in check(machine)]


def _driver(machine: Machine) -> Iterator[HealthCheck]:
    if machine.driver_failed:
        remedy = "See what nvidia-smi says; after an update of the driver, restart the machine."
        yield HealthCheck("driver", Health.ERROR, machine.driver_failed, remedy)
    elif machine.gpu is None:
        yield HealthCheck("device", Health.OK, f"No NVIDIA GPU: {machine.cpus} CPUs are measured.")
    else:
        newest = _version(machine.gpu.driver_cuda)
        runs = f", runs CUDA up to {newest}" if newest else ""
        yield HealthCheck(
            "device", Health.OK, f"{machine.gpu.name}, driver {machine.gpu.driver}{runs}."
        )


def _torch(machine: Machine) -> Iterator[HealthCheck]:
    torch, gpu = machine.torch, machine.gpu
    if machine.torch_failed:
        remedy = 'Install it in the Python of this worker: pip install "throughline[worker]".'
        sentence = f"torch cannot be loaded: {machine.torch_failed}"
        yield HealthCheck("torch", Health.ERROR, sentence, remedy)
    if torch is None:
        return
    if gpu is not None and (wrong := _unfit(torch.version, torch.cuda, torch.archs, gpu)):
        yield wrong
    else:
        built = f" for CUDA {torch.cuda}" if torch.cuda else " without CUDA"
        yield HealthCheck("torch", Health.OK, f"torch {torch.version}{built}.")
    for name, wanted, has in torch.misfits:
        sentence = f"torch {torch.version} was built with {name} {wanted}; here is {has}."
        yield HealthCheck("packages", Health.ERROR, sentence, f"pip install {name}=={wanted}")


def _unfit(
    version: str, cuda: str | None, archs: tuple[str, ...], gpu: GpuState
) -> HealthCheck | None:
    """Say why this torch cannot use the GPU."""
    if cuda is None:
        sentence = f"torch {version} was built without CUDA, and there is a {gpu.name}."
        remedy = "Install a build with CUDA: see pytorch.org/get-started."
        return HealthCheck("torch", Health.ERROR, sentence, remedy)
    major = int(cuda.partition(".")[0])
    if gpu.driver_cuda is not None and major > gpu.driver_cuda[0]:
        runs = _version(gpu.driver_cuda)
        sentence = f"torch {version} needs CUDA {cuda}, and driver {gpu.driver} runs {runs}."
        remedy = f"Update the driver, or install torch for CUDA {gpu.driver_cuda[0]}."
        return HealthCheck("torch", Health.ERROR, sentence, remedy)
    if gpu.capability is not None and archs and not _has_kernels(archs, gpu.capability):
        sentence = (
            f"torch {version} has kernels for {', '.join(archs)}, and this {gpu.name} has "
            f"compute capability {_version(gpu.capability)}."
        )
        return HealthCheck("torch", Health.ERROR, sentence, "Install another build of torch.")
    return None


def _has_kernels(archs: tuple[str, ...], capability: Version) -> bool:
    """Machine code runs on later GPUs of the same major version, PTX on all later ones."""
    for arch in archs:
        kind, _, digits = arch.rstrip("af").partition("_")
        has = (int(digits[:-1]), int(digits[-1]))
        if has <= capability and (kind == "compute" or has[0] == capability[0]):
            return True
    return False


def _compiling(machine: Machine) -> Iterator[HealthCheck]:
    torch = machine.torch
    if not machine.compiler:
        sentence = "There is no C++ compiler: cases with compile= will fail."
        yield HealthCheck("compiler", Health.ERROR, sentence, "apt-get install g++")
    if torch is not None and not torch.headers:
        sentence = "Python's headers are missing: cases with compile= will fail."
        yield HealthCheck("compiler", Health.ERROR, sentence, "apt-get install python3-dev")
    if machine.recompiled is not None:
        sentence = "Python keeps no bytecode of torch, so processes compile it again, for seconds."
        remedy = f"python -m compileall -q {machine.recompiled}"
        yield HealthCheck("bytecode", Health.WARNING, sentence, remedy)


def _health(machine: Machine) -> Iterator[HealthCheck]:
    gpu = machine.gpu
    if gpu is None:
        return
    if gpu.memory_errors:
        sentence = f"{gpu.memory_errors} errors of its memory could not be corrected."
        yield HealthCheck(
            "memory", Health.ERROR, sentence, "Take the GPU out of service: nvidia-smi -q"
        )
    if gpu.repair_pending:
        sentence = "Rows of its memory are to be replaced, or could not be."
        yield HealthCheck("memory", Health.ERROR, sentence, "Reset the GPU while nobody uses it.")
    if gpu.held_back:
        sentence = f"It slows itself down before any work: {', '.join(gpu.held_back)}."
        yield HealthCheck(
            "clock", Health.ERROR, sentence, "Look at its cooling and its power supply."
        )


def _speed(machine: Machine) -> Iterator[HealthCheck]:
    gpu = machine.gpu
    if gpu is None:
        return
    limit_w, usual_w = gpu.power_limit_w, gpu.default_power_limit_w
    if limit_w and usual_w and limit_w < NEARLY * usual_w:
        sentence = f"Its power is limited to {limit_w:.0f} W; by default it has {usual_w:.0f} W."
        yield HealthCheck(
            "power", Health.WARNING, sentence, f"nvidia-smi -pl {usual_w:.0f}, if wanted"
        )
    if gpu.pcie_lanes and gpu.most_pcie_lanes and gpu.pcie_lanes < gpu.most_pcie_lanes:
        sentence = f"It uses {gpu.pcie_lanes} of its {gpu.most_pcie_lanes} PCIe lanes."
        remedy = "Copies are slower: look at the slot and the riser."
        yield HealthCheck("pcie", Health.WARNING, sentence, remedy)
    if gpu.persistent is False:
        sentence = "Its driver unloads between processes, so each one starts later."
        yield HealthCheck("driver", Health.WARNING, sentence, "nvidia-smi -pm 1")
    if gpu.ecc is False:
        yield HealthCheck("memory", Health.WARNING, "Its memory corrects no errors: ECC is off.")


def _neighbours(machine: Machine) -> Iterator[HealthCheck]:
    gpu = machine.gpu
    if gpu is None:
        return
    if gpu.mig:
        sentence = "It is cut into slices (MIG), which have no clock and no power of their own."
        yield HealthCheck(
            "neighbours", Health.WARNING, sentence, "Other slices make numbers noisier."
        )
    if gpu.processes:
        sentence = f"Other programs use it now: {gpu.processes}."
        remedy = "Results beside them are flagged other_processes."
        yield HealthCheck("neighbours", Health.WARNING, sentence, remedy)
    if gpu.near_cpus is False:
        sentence = "No CPU of its NUMA node is ours, so batches cross between sockets."
        remedy = "Give this worker CPUs beside its GPU: nvidia-smi topo -m"
        yield HealthCheck("numa", Health.WARNING, sentence, remedy)


def _host(machine: Machine) -> Iterator[HealthCheck]:
    if machine.governor not in ("", "performance"):
        sentence = f"The CPUs' governor is {machine.governor}: their clock follows the load."
        yield HealthCheck("cpu", Health.WARNING, sentence, "cpupower frequency-set -g performance")
    shared_b = machine.shared_memory_b
    if shared_b is not None and shared_b < LEAST_SHARED_B:
        health = Health.WARNING if machine.gpu is None else Health.ERROR
        sentence = f"Its /dev/shm has {_gib(shared_b)}: with large batches loader processes crash."
        remedy = "Give the container more: docker run --shm-size=8g"
        yield HealthCheck("shared memory", health, sentence, remedy)
    if 0 <= machine.open_files < LEAST_OPEN_FILES:
        sentence = f"A process may open {machine.open_files} files: many loader processes fail."
        yield HealthCheck("open files", Health.WARNING, sentence, "ulimit -n 65536")


def _disk(machine: Machine) -> Iterator[HealthCheck]:
    for folder, free_b in sorted((machine.free_b or {}).items()):
        if free_b >= TIGHT_FREE_B:
            continue
        health = Health.ERROR if free_b < LEAST_FREE_B else Health.WARNING
        sentence = f"{folder} has {_gib(free_b)} free; data and compiled code take some."
        yield HealthCheck("disk", health, sentence, "Make room there, or name another folder.")


CHECKS: tuple[Check, ...] = (
    _driver,
    _torch,
    _compiling,
    _health,
    _speed,
    _neighbours,
    _host,
    _disk,
)


def _version(version: Version | None) -> str:
    return ".".join(map(str, version)) if version else ""


def _gib(size_b: int) -> str:
    return f"{size_b / GIB:.1f} GiB"
