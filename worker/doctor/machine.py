"""Looks at a machine: its GPU, what torch is there, its processors, memory and disks."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from benchmarks import die_with_parent
from benchmarks.cpus import usable_cpus
from worker.child import bytecode
from worker.device import nvml
from worker.doctor import gpu
from worker.settings import Settings, child_environment, visible_devices

LIMIT_S = 120.0
"""Longer than torch loads from a cold disk."""
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_ASK_TORCH = """
import importlib.metadata as installed, json, re, sysconfig, torch
from pathlib import Path
told = {"version": torch.__version__, "cuda": torch.version.cuda}
told["archs"] = torch.cuda.get_arch_list()
told["misfits"] = []
for line in installed.requires("torch") or ():
    if found := re.match(r"((?:triton|nvidia-)[\\w-]*)\\s*==\\s*([\\w.]+)", line):
        name, wanted = found.groups()
        try:
            has = installed.version(name)
        except installed.PackageNotFoundError:
            continue  # on the CPU, or where CUDA's own packages serve
        if has.partition("+")[0] != wanted:
            told["misfits"].append((name, wanted, has))
told["headers"] = (Path(sysconfig.get_path("include")) / "Python.h").exists()
print(json.dumps(told))
"""


@dataclass(frozen=True)
class TorchInstalled:
    """The torch that children of the worker load."""

    version: str
    cuda: str | None = None
    """The CUDA that it was built for; None without CUDA."""
    archs: tuple[str, ...] = ()
    """``sm_90`` and the like, which it has kernels for."""
    misfits: tuple[tuple[str, str, str], ...] = ()
    """Name, wanted and installed version of packages that it was built with: Triton, cuDNN ..."""
    headers: bool = True
    """Python's own headers are there, which compiled code needs."""


@dataclass(frozen=True)
class Machine:
    """What one look at a machine has seen; sizes in bytes."""

    gpu: gpu.GpuState | None = None
    driver_failed: str = ""
    """Why the driver does not tell its GPUs."""
    torch: TorchInstalled | None = None
    torch_failed: str = ""
    """Why torch cannot be loaded; empty also where nobody has tried."""
    compiler: bool = True
    cpus: int = 1
    governor: str = ""
    shared_memory_b: int | None = None
    """Size of /dev/shm, through which loader processes hand batches over."""
    open_files: int = 2**20
    free_b: Mapping[str, int] | None = None
    """Free space by folder."""
    recompiled: Path | None = None
    """Torch's folder, if Python keeps no bytecode of it."""


def look(settings: Settings, *, at_torch: bool = True) -> Machine:
    """Look at this machine with the device of ``settings``; torch takes seconds, the rest none."""
    state, driver_failed = _gpu(settings)
    torch, torch_failed = _torch(settings) if at_torch else (None, "")
    return Machine(
        gpu=state,
        driver_failed=driver_failed,
        torch=torch,
        torch_failed=torch_failed,
        compiler=any(map(shutil.which, ("c++", "g++", "clang++"))),
        cpus=usable_cpus(),
        governor=_governor(),
        shared_memory_b=_size_b(Path("/dev/shm")),  # noqa: S108 - its size is the question
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        free_b=_free_b({settings.state, Path(tempfile.gettempdir())}),
        recompiled=bytecode.lost(),
    )


def _gpu(settings: Settings) -> tuple[gpu.GpuState | None, str]:
    if settings.device == "cpu":
        return None, ""
    try:
        among = nvml.devices()
        device = settings.on_machine(bool(among)).device
        found = nvml.find(device, visible_devices(), among)
        return (gpu.read(found.uuid) if found else None), ""
    except nvml.DriverFailed as failed:
        return None, str(failed)
    except pynvml.NVMLError as error:
        return None, f"The NVIDIA driver does not answer ({error})."


def _torch(settings: Settings) -> tuple[TorchInstalled | None, str]:
    command = [*die_with_parent.tied(), settings.python, "-c", _ASK_TORCH]
    try:
        asked = subprocess.run(
            command,
            env=child_environment(settings),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        told: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        return None, (error.stderr.strip().splitlines() or ["no message"])[-1]
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return None, str(error) or type(error).__name__
    lists = {
        "archs": tuple(told["archs"]),
        "misfits": tuple(tuple(misfit) for misfit in told["misfits"]),
    }
    return TorchInstalled(**told | lists), ""


def _governor() -> str:
    with suppress(OSError):
        return _GOVERNOR.read_text(encoding="ascii").strip()
    return ""


def _size_b(folder: Path) -> int | None:
    with suppress(OSError):
        return shutil.disk_usage(folder).total
    return None


def _free_b(folders: set[Path]) -> dict[str, int]:
    """Free space by folder, or by the nearest one that exists."""
    free = {}
    for folder in folders:
        there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
        with suppress(OSError):
            free[str(folder)] = shutil.disk_usage(there).free
    return free
