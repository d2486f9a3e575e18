"""The conditions that warm-up watches beside step times: compiler, allocator, temperature."""

from __future__ import annotations

import resource
from collections.abc import Callable

import torch

from benchmarks.measure import compilation
from benchmarks.measure.warmup import Reading


def reader(device: torch.device) -> Callable[[], Reading]:
    """A function that reads the present conditions of this process and ``device``."""
    temperature = _temperature_reader(device)

    def read() -> Reading:
        return Reading(counters=_counters(device), temperature_c=temperature())

    return read


def _counters(device: torch.device) -> tuple[int, ...]:
    graphs = compilation.graphs()
    if device.type != "cuda":
        return (graphs,)
    memory = torch.cuda.memory_stats(device)
    return (graphs, memory["reserved_bytes.all.current"], memory["num_alloc_retries"])


def _temperature_reader(device: torch.device) -> Callable[[], float | None]:
    if device.type != "cuda":
        return lambda: None

    def read() -> float | None:
        try:
            return float(torch.cuda.temperature(device))
        except Exception:  # no management library: then temperature is not awaited
            return None

    return read


def peak_memory(device: torch.device) -> tuple[int, int]:
    """Peak bytes held for tensors, and reserved, since `reset_peak`; on a CPU the peak resident
    size.

    The resident size includes libraries: after import alone, torch 2.11 with CUDA held 495 MiB and
    torch 2.13 for CPUs 219 MiB, half of a small case.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, 0


def allocator_retries(device: torch.device) -> int:
    """Times that the allocator had to give memory back to the driver and try again."""
    return torch.cuda.memory_stats(device)["num_alloc_retries"] if device.type == "cuda" else 0


def device_allocations(device: torch.device) -> int:
    """Pieces of memory that the allocator has asked the driver for, or given back."""
    if device.type != "cuda":
        return 0
    stats = torch.cuda.memory_stats(device)
    return int(stats.get("num_device_alloc", 0) + stats.get("num_device_free", 0))


def reset_peak(device: torch.device) -> None:
    """Start counting peak memory anew, where the device can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
