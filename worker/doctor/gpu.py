"""Reads what the driver tells of one GPU, apart from any measurement."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pynvml

from benchmarks.cpus import beside, listed
from worker.device.nvml import REASONS, library

Version = tuple[int, int]
HELD_BACK = ("hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
"""Clock event reasons that point to cooling or to the power supply."""


@dataclass(frozen=True)
class GpuState:
    """One GPU; None is what its driver does not tell."""

    name: str
    driver: str = ""
    driver_cuda: Version | None = None
    """The newest CUDA that the driver runs."""
    capability: Version | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    clock_limit_mhz: int | None = None
    """Of the SMs, as applications may ask for it; the driver tells no locked clock."""
    default_clock_limit_mhz: int | None = None
    mig: bool | None = None
    memory_errors: int | None = None
    """Errors since the driver was loaded that ECC could not correct."""
    repair_pending: bool | None = None
    """Faulty rows of its memory are replaced at the next reset."""
    repair_failed: bool | None = None
    pcie_lanes: int | None = None
    most_pcie_lanes: int | None = None
    persistent: bool | None = None
    """The driver stays loaded while nobody uses the GPU."""
    held_back: tuple[str, ...] = ()
    processes: int = 0
    near_cpus: bool | None = None
    """True if this process may run on a CPU of the GPU's NUMA node."""


def read(uuid: str) -> GpuState:
    """Read the GPU of that UUID.

    Raises:
        pynvml.NVMLError: the driver does not answer.
    """
    with library():
        return _state(pynvml.nvmlDeviceGetHandleByUUID(uuid))


def _state(gpu: Any) -> GpuState:
    uncorrected, volatile = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    cuda = _told(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    repairs = _told(lambda: pynvml.nvmlDeviceGetRemappedRows(gpu))
    reasons = _told(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)) or 0
    return GpuState(
        name=str(pynvml.nvmlDeviceGetName(gpu)),
        driver=_told(pynvml.nvmlSystemGetDriverVersion) or "",
        driver_cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
        capability=_told(lambda: tuple(pynvml.nvmlDeviceGetCudaComputeCapability(gpu))),
        power_limit_w=_told(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1e3),
        default_power_limit_w=_told(
            lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu) / 1e3
        ),
        clock_limit_mhz=_told(
            lambda: pynvml.nvmlDeviceGetApplicationsClock(gpu, pynvml.NVML_CLOCK_SM)
        ),
        default_clock_limit_mhz=_told(
            lambda: pynvml.nvmlDeviceGetDefaultApplicationsClock(gpu, pynvml.NVML_CLOCK_SM)
        ),
        mig=_told(lambda: bool(pynvml.nvmlDeviceGetMigMode(gpu)[0])),
        memory_errors=_told(
            lambda: int(pynvml.nvmlDeviceGetTotalEccErrors(gpu, uncorrected, volatile))
        ),
        repair_pending=None if repairs is None else bool(repairs[2]),
        repair_failed=None if repairs is None else bool(repairs[3]),
        pcie_lanes=_told(lambda: pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
        most_pcie_lanes=_told(lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
        persistent=_told(lambda: bool(pynvml.nvmlDeviceGetPersistenceMode(gpu))),
        held_back=tuple(name for name in HELD_BACK if reasons & REASONS[name]),
        processes=len(_told(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)) or ()),
        near_cpus=_near(_told(lambda: pynvml.nvmlDeviceGetPciInfo(gpu).busId) or ""),
    )


def _told(read_one: Callable[[], Any]) -> Any:
    with suppress(pynvml.NVMLError):
        return read_one()
    return None


def _near(slot: str | bytes) -> bool | None:
    """Say whether a CPU beside the GPU in ``slot`` is ours; None where the kernel does not tell."""
    named = slot.decode() if isinstance(slot, bytes) else slot
    near = beside(named.lower()[-12:])  # NVML has eight digits for the domain, the kernel four
    return bool(listed(near) & os.sched_getaffinity(0)) if near else None
