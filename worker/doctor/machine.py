"""Looks at a machine: its GPU, what torch is there, its processors, memory and disks."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from benchmarks.contracts import line
from benchmarks.cpus import usable_cpus
from worker.child import bytecode
from worker.device import nvml, usable
from worker.doctor import gpu
from worker.settings import Settings, visible_devices

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_PCI = Path("/sys/bus/pci/devices")
_MARK = "doctor:"
_ASK_TORCH = f"""
import sys
sys.path[:] = [place for place in sys.path if place]  # nothing of the current folder
import importlib.metadata as installed, json, re, sysconfig
from pathlib import Path
import torch
told = {{"version": torch.__version__, "cuda": torch.version.cuda, "misfits": []}}
told["archs"] = torch.cuda.get_arch_list()
told["headers"] = (Path(sysconfig.get_path("include")) / "Python.h").exists()
try:
    needs = installed.requires("torch") or ()
except installed.PackageNotFoundError:  # built from source
    needs = ()
for need in needs:
    if found := re.match(r"((?:triton|nvidia-)[\\w-]*)\\s*==\\s*([\\w.]+)", need):
        name, wanted = found.groups()
        try:
            has = installed.version(name)
        except installed.PackageNotFoundError:
            continue  # on the CPU, or where CUDA's own packages serve
        if has.partition("+")[0] != wanted:
            told["misfits"].append((name, wanted, has))
if sys.argv[1] != "cpu" and torch.version.cuda:
    try:
        torch.cuda.init()
        seen = torch.cuda.device_count()
        if int(sys.argv[1].partition(":")[2] or 0) >= seen:
            told["refused"] = f"it sees {{seen}} GPUs, and none that is {{sys.argv[1]}}."
    except Exception as error:
        told["refused"] = str(error).partition("\\n")[0]
print("\\n{_MARK}" + json.dumps(told))
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
    refused: str = ""
    """Why it cannot use CUDA here."""


@dataclass(frozen=True)
class Machine:
    """Readings of one machine; sizes in bytes."""

    device: str = "cpu"
    """The device that is measured on, as ``cuda:0``."""
    gpu: gpu.GpuState | None = None
    driver_failed: str = ""
    """Why the driver does not tell its GPUs."""
    driverless: bool = False
    """There is an NVIDIA GPU, and no driver that tells of it."""
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
    temporary: bool = True
    """Some folder for temporary files can be written."""
    recompiled: Path | None = None
    """Torch's folder, if Python keeps no bytecode of it."""


def look(settings: Settings, *, at_torch: bool = True) -> Machine:
    """Look at this machine with the device of ``settings``; torch takes seconds, the rest none."""
    device, state, driver_failed = _gpu(settings)
    here = settings.model_copy(update={"device": device})
    torch, torch_failed = _torch(here) if at_torch else (None, "")
    temporary = _temporary()
    return Machine(
        device=device,
        gpu=state,
        driver_failed=driver_failed,
        driverless=settings.device == "auto" and device == "cpu" and any(_nvidia_slots()),
        torch=torch,
        torch_failed=torch_failed,
        compiler=shutil.which(os.environ.get("CXX") or "g++") is not None,
        cpus=usable_cpus(),
        governor=_governor(),
        shared_memory_b=_size_b(Path("/dev/shm")),  # noqa: S108 - its size is the question
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        free_b=_free_b({settings.state, temporary, settings.cache_dir}),
        temporary=temporary is not None,
        recompiled=bytecode.lost(),
    )


def _gpu(settings: Settings) -> tuple[str, gpu.GpuState | None, str]:
    """The device that is measured on, its state, and why its driver does not tell."""
    if settings.device == "cpu":
        return "cpu", None, ""
    try:
        among = nvml.devices()
        device = settings.on_machine(bool(among)).device
        found = nvml.find(device, visible_devices(), among)
        return device, (gpu.read(found.uuid) if found else None), ""
    except nvml.DriverFailed as failed:
        return settings.device, None, str(failed)
    except pynvml.NVMLError as error:
        return settings.device, None, f"The NVIDIA driver does not answer ({error})."


def _nvidia_slots() -> Iterator[Path]:
    """Yield the PCI slots with a display or compute device of NVIDIA."""
    for slot in _PCI.glob("*"):
        with suppress(OSError):
            vendor, kind = ((slot / name).read_text("ascii") for name in ("vendor", "class"))
            if vendor.strip() == "0x10de" and kind.startswith("0x03"):
                yield slot


def _torch(settings: Settings) -> tuple[TorchInstalled | None, str]:
    try:
        answer = usable.ask(settings, _ASK_TORCH)
    except OSError as error:
        return None, str(error)
    assert answer is not None  # nobody has it given up
    told = [said for said in answer.stdout.splitlines() if said.startswith(_MARK)]
    if not told:
        return None, _last_words(answer)
    read: dict[str, Any] = json.loads(told[-1].removeprefix(_MARK))
    read |= {"archs": tuple(read["archs"]), "misfits": tuple(map(tuple, read["misfits"]))}
    return TorchInstalled(**read), ""


def _last_words(answer: subprocess.CompletedProcess[str]) -> str:
    if answer.returncode < 0:
        return f"it was ended by {signal.Signals(-answer.returncode).name}."
    return line((answer.stderr.strip().splitlines() or ["it said nothing."])[-1])


def _governor() -> str:
    with suppress(OSError):
        return _GOVERNOR.read_text(encoding="ascii").strip()
    return ""


def _temporary() -> Path | None:
    with suppress(OSError):
        return Path(tempfile.gettempdir())
    return None


def _size_b(folder: Path) -> int | None:
    with suppress(OSError):
        return shutil.disk_usage(folder).total
    return None


def _free_b(folders: set[Path | None]) -> dict[str, int]:
    """Free space by folder, or by the nearest one that exists."""
    free = {}
    for folder in filter(None, folders):
        with suppress(OSError):
            there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
            free[str(folder)] = shutil.disk_usage(there).free
    return free
