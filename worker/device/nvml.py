"""NVIDIA's management library, reduced to what a measurement needs; may be absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pynvml

REASONS = {
    "gpu_idle": 0x001,
    "applications_clocks": 0x002,
    "sw_power_cap": 0x004,
    "hw_slowdown": 0x008,
    "sync_boost": 0x010,
    "sw_thermal": 0x020,
    "hw_thermal": 0x040,
    "power_brake": 0x080,
    "display_clocks": 0x100,
}
"""Bits of the clock event reasons, as nvml.h numbers them."""


class DriverFailed(Exception):
    """A driver is installed and does not answer; the message says why in one sentence."""


@dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU of this machine, by NVML's own (PCI) order."""

    index: int
    uuid: str
    name: str


class Gauge(Protocol):
    """The instruments of one device. Readings that it lacks are left out."""

    def channels(self) -> dict[str, float]:
        """Momentary readings in base units: ``sm_clock_hz``, ``power_w`` ..."""

    def reasons(self) -> int | None:
        """Mask of the clock event reasons that are active."""

    def energy_j(self) -> float | None:
        """Total energy since the driver was loaded, in J."""

    def processes(self) -> frozenset[int]:
        """Process ids that hold a compute context, as the driver numbers them."""


class NvmlGauge:
    """A real device, named by its UUID. Close it to let the library go."""

    def __init__(self, uuid: str) -> None:
        """Open the device."""
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self._unsupported: set[str] = set()
        self._momentary: dict[str, Callable[[], float]] = {
            "sm_clock_hz": lambda: 1e6 * self._clock(pynvml.NVML_CLOCK_SM),
            "memory_clock_hz": lambda: 1e6 * self._clock(pynvml.NVML_CLOCK_MEM),
            "power_w": lambda: 1e-3 * pynvml.nvmlDeviceGetPowerUsage(self._handle),
            "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(
                self._handle, pynvml.NVML_TEMPERATURE_GPU
            ),
            "utilization": lambda: pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100,
            "memory_used_b": self._memory_used_b,
        }

    def close(self) -> None:
        """Let the library go; a second call does nothing."""
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def channels(self) -> dict[str, float]:
        """See `Gauge.channels`."""
        readings = {name: self._ask(name, read) for name, read in self._momentary.items()}
        return {name: float(value) for name, value in readings.items() if value is not None}

    def reasons(self) -> int | None:
        """See `Gauge.reasons`."""
        mask = self._ask(
            "reasons", lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        )
        return None if mask is None else int(mask)

    def energy_j(self) -> float | None:
        """See `Gauge.energy_j`; NVML counts millijoules."""
        total = self._ask(
            "energy", lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        )
        return None if total is None else 1e-3 * total

    def processes(self) -> frozenset[int]:
        """See `Gauge.processes`."""
        listed = self._ask(
            "processes", lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        )
        return frozenset(int(process.pid) for process in listed or ())

    def _memory_used_b(self) -> float:
        with suppress(pynvml.NVMLError):
            version = pynvml.nvmlMemory_v2
            return float(pynvml.nvmlDeviceGetMemoryInfo(self._handle, version=version).used)
        return float(pynvml.nvmlDeviceGetMemoryInfo(self._handle).used)

    def _clock(self, kind: int) -> float:
        return float(pynvml.nvmlDeviceGetClockInfo(self._handle, kind))

    def _ask(self, name: str, read: Callable[[], Any]) -> Any:
        """Read once; unsupported readings are not requested again."""
        if name in self._unsupported:
            return None
        try:
            return read()
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
            self._unsupported.add(name)
        except pynvml.NVMLError:
            pass  # this reading only: the next may succeed
        return None


def devices() -> list[Gpu]:
    """Every NVIDIA GPU of this machine; none without a driver.

    Raises:
        DriverFailed: there is a driver, but it does not tell: as after its update without a reboot.
    """
    try:
        with library():
            return [_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return []
    except pynvml.NVMLError as error:
        raise DriverFailed(
            f"The NVIDIA driver does not tell its GPUs ({error}): see what nvidia-smi says."
        ) from error


def driver_version() -> str | None:
    """The NVIDIA driver's version, if there is one."""
    try:
        with library():
            return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def find(device: str, visible: str | None, among: list[Gpu]) -> Gpu | None:
    """The GPU that CUDA calls ``device`` (``cuda:N``) under a given CUDA_VISIBLE_DEVICES.

    None for a slice of a GPU (``MIG-...``), which has no power or clock of its own.
    """
    kind, _, digits = device.partition(":")
    if kind != "cuda" or (digits and not digits.isdecimal()):
        return None
    number = int(digits or 0)
    if visible is None:
        return among[number] if number < len(among) else None
    named = [part.strip() for part in visible.split(",")]
    name = named[number] if number < len(named) else ""
    if name.isdecimal():
        return next((gpu for gpu in among if gpu.index == int(name)), None)
    if name.startswith("GPU-"):  # CUDA takes a unique beginning of a UUID as well
        return next((gpu for gpu in among if gpu.uuid.startswith(name)), None)
    return None


def open_gauge(gpu: Gpu | None) -> NvmlGauge | None:
    """The instruments of ``gpu``, or None when they cannot be had."""
    if gpu is None:
        return None
    try:
        return NvmlGauge(gpu.uuid)
    except pynvml.NVMLError:
        return None


@contextmanager
def library() -> Iterator[None]:
    """Hold the library open.

    Raises:
        pynvml.NVMLError: there is no driver, or it does not answer.
    """
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _gpu(index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return Gpu(index, str(pynvml.nvmlDeviceGetUUID(handle)), str(pynvml.nvmlDeviceGetName(handle)))
