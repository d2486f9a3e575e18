"""The links between a worker's devices: rates of collectives, by one process for each of them.

``python -m benchmarks.measure.links FOLDER RANK DEVICE ...`` is such a process; they find each
other through a file in FOLDER.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks import die_with_parent
from benchmarks.measure.device import choose
from benchmarks.measure.timestamps import drain, maker

MIB = 2**20
SIZES = {
    "cuda": {
        "all_reduce_1mib_b_s": MIB,
        "all_reduce_32mib_b_s": 32 * MIB,
        "all_reduce_1gib_b_s": 1024 * MIB,
    },
    "cpu": {"all_reduce_1mib_b_s": MIB},
}
POINT_TO_POINT = "point_to_point_b_s"
ROUNDS, IN_A_ROW = 9, 4
LIMIT = timedelta(seconds=30)
"""Longest wait for another rank."""
LINKS = 18
"""NVLinks of a GPU, at most."""


def measure(devices: Sequence[str]) -> dict[str, float]:
    """Return B/s of the links between ``devices``, each used by a process of its own: NCCL ends a
    process that waits too long for another.

    All-reduce is told as bus bandwidth: what each link carries, 2 (n - 1) / n of the size for n
    ranks, over the time. Point to point is there and back again, of the slowest pair with the
    first device.

    Raises:
        RuntimeError: there are fewer devices, the ranks do not find each other, or a device has no
            memory left.
    """
    if any(
        (torch.device(name).index or 0) >= max(1, torch.cuda.device_count()) for name in devices
    ):
        raise RuntimeError("There are fewer GPUs than are named.")
    with tempfile.TemporaryDirectory(prefix="tl-links-") as folder, ExitStack() as undo:
        ranks = []
        for rank in range(len(devices)):
            ranks.append(_started(folder, rank, devices))
            undo.callback(_end, ranks[-1])
        try:
            told, _ = ranks[0].communicate(timeout=2 * LIMIT.total_seconds())
        except subprocess.TimeoutExpired as error:
            raise RuntimeError("The ranks did not find each other in time.") from error
        if ranks[0].returncode:
            raise RuntimeError("A rank failed; its error output says why.")
        rates: dict[str, float] = json.loads(told.splitlines()[-1])
        return rates


def facts(devices: Sequence[str]) -> dict[str, str]:
    """Return what rates between ``devices`` depend on: NCCL, its multicast, the links."""
    if not devices[0].startswith("cuda"):
        return {}
    version = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    multicast = os.environ.get("NCCL_NVLS_ENABLE", "as NCCL chooses")
    told = {"nccl": ".".join(map(str, version)), "nccl_nvls_enable": multicast}
    with contextlib.suppress(Exception):  # absent, or a driver that does not tell
        told["topology"] = ", ".join(_topology(devices))
    return told


def _topology(devices: Sequence[str]) -> Iterator[str]:
    """NVLinks of each device, and whether it reaches the first one's memory by itself."""
    import pynvml  # noqa: PLC0415 - absent on machines without an NVIDIA GPU

    pynvml.nvmlInit()
    first = torch.device(devices[0]).index or 0
    for name in devices:
        number = torch.device(name).index or 0
        handle = pynvml.nvmlDeviceGetHandleByUUID(
            f"GPU-{torch.cuda.get_device_properties(number).uuid}"
        )
        links = 0
        for link in range(LINKS):
            with contextlib.suppress(pynvml.NVMLError):
                links += bool(pynvml.nvmlDeviceGetNvLinkState(handle, link))
        peer = number == first or torch.cuda.can_device_access_peer(first, number)
        yield f"{name}: {links} NVLinks" + ("" if peer else ", no peer access")


def _started(folder: str, rank: int, devices: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.measure.links", folder, str(rank), *devices]
    stdout = subprocess.DEVNULL if rank else subprocess.PIPE
    return subprocess.Popen([*die_with_parent.tied(), *command], stdout=stdout)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _rank(folder: Path, rank: int, devices: Sequence[str]) -> dict[str, float]:
    """Take part as ``rank``; what it reads is of use for rank 0 alone."""
    device = choose(devices[rank])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=f"file://{folder / 'rendezvous'}",
        rank=rank,
        world_size=len(devices),
        timeout=LIMIT,
        device_id=device if device.type == "cuda" else None,
    )
    try:
        return _rates(device, rank, len(devices), SIZES[device.type])
    finally:
        dist.destroy_process_group()


def _rates(
    device: torch.device, rank: int, world: int, sizes: Mapping[str, int]
) -> dict[str, float]:
    rates = {}
    for name, size in sizes.items():
        tensor = torch.zeros(size, dtype=torch.uint8, device=device).view(torch.float32)
        seconds = _median_s(device, lambda: _reduce(tensor)) / IN_A_ROW  # noqa: B023 - called at once
        rates[name] = 2 * (world - 1) / world * size / seconds
    tensor = torch.zeros(max(sizes.values()), dtype=torch.uint8, device=device)
    slowest_s = 0.0
    for peer in range(1, world):
        if rank in (0, peer):
            seconds = _median_s(device, lambda: _there_and_back(tensor, rank, peer))  # noqa: B023
            slowest_s = max(slowest_s, seconds / 2)
    if rank == 0:
        rates[POINT_TO_POINT] = tensor.numel() / slowest_s
    return rates


def _reduce(tensor: torch.Tensor) -> None:
    """Queue several at once: to start one after the other takes a hundredth of a large one."""
    begun = [dist.all_reduce(tensor, async_op=True) for _ in range(IN_A_ROW)]
    for one in begun:
        one.wait()


def _there_and_back(tensor: torch.Tensor, rank: int, peer: int) -> None:
    if rank == 0:
        dist.send(tensor, peer)
        dist.recv(tensor, peer)
    else:
        dist.recv(tensor, 0)
        dist.send(tensor, 0)


def _median_s(device: torch.device, work: Callable[[], object]) -> float:
    """Seconds of ``work`` on this rank; the first two times do not count.

    Nothing waits between two rounds but ``work`` itself, in which all ranks meet.
    """
    marks = [maker(device)() for _ in range(ROUNDS + 1)]
    for _ in range(2):
        work()
    for mark in marks[:-1]:
        mark.record()
        work()
    marks[-1].record()
    drain(device)
    spans = itertools.pairwise(marks)
    return statistics.median(start.elapsed_time(end) / 1e3 for start, end in spans)


def main() -> int:
    """Be one rank beside the canary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("rank", type=int)
    parser.add_argument("devices", nargs="+")
    asked = parser.parse_args()
    print(json.dumps(_rank(asked.folder, asked.rank, asked.devices)))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
