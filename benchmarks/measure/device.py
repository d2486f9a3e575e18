"""The device that this process measures on, and the CPUs that lie beside it."""

from __future__ import annotations

import gc
import os
from contextlib import AbstractContextManager, chdir, nullcontext
from typing import Any

import torch

from benchmarks.cpus import beside, listed


def choose(name: str | None, rank: int = 0) -> torch.device:
    """Make ``name`` (``cpu``, ``cuda``, ``cuda:1``) this process's device; by default a GPU if any,
    the one with the number of the ``rank``.

    It becomes the *current* device too: events, streams and the loader's pinning thread act on the
    current device, whatever device the tensors are on.

    Raises:
        RuntimeError: torch cannot use that device.
    """
    device = torch.device(name or (f"cuda:{rank}" if torch.cuda.is_available() else "cpu"))
    if device.type != "cuda":
        return device
    device, seen = torch.device("cuda", device.index or 0), torch.cuda.device_count()
    if (device.index or 0) >= seen:
        raise RuntimeError(f"{device} cannot be used: torch {torch.__version__} sees {seen} GPUs.")
    torch.cuda.set_device(device)
    return device


def stay_near(device: torch.device) -> str:
    """Keep this process and its loader on the CPUs of the GPU's NUMA node; return their list.

    Where the node is unknown, or has no CPU of ours, nothing changes and the list is empty.
    """
    if device.type != "cuda":
        return ""
    properties: Any = torch.cuda.get_device_properties(device)  # its stub leaves out the slot
    try:
        domain, bus = properties.pci_domain_id, properties.pci_bus_id
        slot = f"{domain:04x}:{bus:02x}:{properties.pci_device_id:02x}.0"
        near = beside(slot)
        ours = listed(near) & os.sched_getaffinity(0)
        if not ours:
            return ""
        os.sched_setaffinity(0, ours)
    except (
        OSError,
        ValueError,
        AttributeError,
    ):  # no sysfs, or a torch that does not name the slot
        return ""
    return near


def shared_kernel_cache(
    device: torch.device, *, anywhere: bool = True
) -> AbstractContextManager[None]:
    """Work in the root folder meanwhile, on a GPU, if the code may run ``anywhere``.

    NVRTC writes its working directory into a kernel, and CUDA's cache goes by content: each new
    checkout would compile cuDNN's again, 7 s of ResNet-50's first step (benchmarks/results/h200).
    """
    return chdir("/") if anywhere and device.type == "cuda" else nullcontext()


def free_memory(device: torch.device) -> None:
    """Give the memory that the allocator keeps back to the device, for another process."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
