"""The labels that a worker gives itself, so that jobs may require them."""

from __future__ import annotations

import platform
import subprocess
import sys

from benchmarks.contracts import FOLDER, Worker, line
from benchmarks.version import installed
from worker.child.containment import Containment
from worker.device.nvml import Gpu, driver_version
from worker.settings import Settings


def introduce(settings: Settings, gpu: Gpu | None, containment: Containment, folder: str) -> Worker:
    """This worker as the service will know it; settings' own labels win.

    ``folder`` is what `worker.state_dir.identity` says.
    """
    labels = {
        FOLDER: folder,
        "device": settings.device.partition(":")[0],
        "host": platform.node(),
        "os": platform.system().lower(),
        "python": _python_version(settings.python),
        "arch": platform.machine(),
        "containment": containment.value,
    }
    if settings.allowed_models:
        labels["models"] = ",".join(settings.allowed_models)
    if gpu is not None:
        labels |= {"gpu": gpu.name, "gpu_uuid": gpu.uuid, "driver": driver_version() or ""}
    labels |= settings.labels
    told = {name: line(value) for name, value in labels.items() if value}
    return Worker(name=settings.name, labels=told, version=installed())


def _python_version(python: str) -> str:
    if python == sys.executable:
        return platform.python_version()
    ask = (python, "-c", "import platform; print(platform.python_version())")
    try:
        told = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()
