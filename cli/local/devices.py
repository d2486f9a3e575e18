"""The devices of this machine that get a worker."""

from __future__ import annotations

from dataclasses import dataclass

from cli.exits import Exit, Stop
from worker.device import nvml
from worker.settings import visible_devices

CPU_NOTICE = (
    "No NVIDIA GPU found: measuring on the CPU with the `tiny` presets; "
    "figures say nothing about a GPU."
)


@dataclass(frozen=True)
class Machine:
    """The devices to measure on, in the worker's words: ``cuda:0``, ``cuda:1`` ... or ``cpu``."""

    devices: tuple[str, ...]
    notice: str
    """What a person should know about them."""


def look() -> Machine:
    """Every NVIDIA GPU that CUDA may use here, or the CPU when there is none.

    Raises:
        Stop: there may be some, but their driver does not tell.
    """
    visible = visible_devices()
    hidden = visible is not None and _visible(visible, 0) == 0
    try:
        gpus = [] if hidden else nvml.devices()
    except nvml.DriverFailed as failed:
        sentence = f"{failed} To measure on the CPU all the same, set CUDA_VISIBLE_DEVICES=-1."
        raise Stop(sentence, Exit.FAILED) from failed
    count = _visible(visible, len(gpus)) if gpus else 0
    if count == 0:
        return Machine(("cpu",), CPU_NOTICE)
    names = ", ".join(sorted({gpu.name for gpu in gpus}))
    gpu_count = "One NVIDIA GPU" if count == 1 else f"{count} NVIDIA GPUs"
    return Machine(
        tuple(f"cuda:{index}" for index in range(count)),
        f"{gpu_count} ({names}): measuring with the `full` presets.",
    )


def _visible(visible: str | None, present: int) -> int:
    """Count the devices that CUDA_VISIBLE_DEVICES leaves; CUDA stops at the first invalid one."""
    if visible is None:
        return present
    count = 0
    for part in visible.split(","):
        if part.strip() in {"", "-1"}:
            break
        count += 1
    return count
