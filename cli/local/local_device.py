"""The rig to measure a case on: a folder for its children, and a device that is watched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.exits import Exit, Stop
from worker.child.workspace import workspace
from worker.device import nvml
from worker.device.conditions import Conditions
from worker.settings import Settings, visible_devices


@dataclass(frozen=True)
class Rig:
    """Used by one child after another."""

    settings: Settings
    folder: Path
    """For temporary files and compiler caches: what one child compiles, the next one finds."""
    conditions: Conditions


@contextmanager
def set_up(device: str | None) -> Iterator[Rig]:
    """Set up on ``device``, which is the first GPU, or the CPU, unless one is named.

    The folder is removed at the end. Without an NVIDIA GPU nothing is watched.

    Raises:
        OSError: the folder cannot be made.
        Stop: no device is named, and whether there is a GPU cannot be told.
    """
    settings = Settings()
    gauge = nvml.open_gauge(_gpu(device))
    try:
        with workspace() as folder:
            yield Rig(settings, folder, Conditions(settings, gauge))
    finally:
        if gauge is not None:
            gauge.close()


def _gpu(device: str | None) -> nvml.Gpu | None:
    """The GPU that a child which is told ``device`` takes, as far as NVML knows it."""
    if device == "cpu":
        return None
    try:
        return nvml.find(device or "cuda", visible_devices(), nvml.devices())
    except nvml.DriverFailed as failed:
        if device is None:  # the child would take the CPU without a word
            sentence = f"{failed} To measure on the CPU all the same, choose --device cpu."
            raise Stop(sentence, Exit.FAILED) from failed
        return None
