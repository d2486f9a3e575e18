"""A node's canary: ``python -m benchmarks.measure.canary`` prints the node's speed as JSON.

Fixed work of a second or two, without any model: a matrix product, copies on the device and to it,
empty launches, a loop in plain Python. Each reading is a median, so that one interruption does not
count. With ``--beside`` also the links between the device and others.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import torch

from benchmarks.contracts import Canary
from benchmarks.contracts.canary import PRODUCTS
from benchmarks.measure import float8, links
from benchmarks.measure.device import choose
from benchmarks.measure.timestamps import drain, maker

GEMM = {"cuda": (8192, torch.bfloat16), "cpu": (1024, torch.float32)}
"""Rows and columns of the square product, and its arithmetic."""
FP8_SINCE = (8, 9)
"""Least compute capability of a device that multiplies in 8 bits."""
WARM_S = 0.3
"""A rested device runs faster at first than it can sustain."""
COPY_B = {"cuda": 2**30, "cpu": 2**27}
TRANSFER_B = 2**28
LAUNCHES = 10_000
ROUNDS = 9
LOOP = 1_000_000
"""Turns of the Python loop: a few hundredths of a second."""


def measure(device: torch.device, beside: Sequence[str] = ()) -> Canary:
    """Take every reading that ``device`` has memory and a kernel for, with its links to the devices
    ``beside`` it, if there are any."""
    readings = {}
    for name, take in _readings(device):
        with contextlib.suppress(RuntimeError):
            readings[name] = take()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    facts = {}
    if beside:
        together = [str(device), *beside]
        facts = links.facts(together)
        with contextlib.suppress(RuntimeError):
            readings |= links.measure(together)
    return Canary(measured_at=datetime.now(UTC), readings=readings, facts=facts)


def _readings(device: torch.device) -> Iterator[tuple[str, Callable[[], float]]]:
    yield "gemm_flop_s", lambda: _gemm(device)
    yield "copy_b_s", lambda: _copy(device)
    if device.type == "cuda":
        yield from _other_products(device)
        yield "h2d_pinned_b_s", lambda: _transfer(device, pinned=True)
        yield "h2d_pageable_b_s", lambda: _transfer(device, pinned=False)
        yield "launch_s", _launch
    yield "python_s", _python


def _other_products(device: torch.device) -> Iterator[tuple[str, Callable[[], float]]]:
    """Readings of the arithmetic that a model may use beside the first one."""
    yield PRODUCTS["fp16"], lambda: _gemm(device, torch.float16)
    yield PRODUCTS["tf32"], lambda: _gemm(device, torch.float32, tf32=True)
    yield PRODUCTS["fp32"], lambda: _gemm(device, torch.float32)
    if torch.cuda.get_device_capability(device) >= FP8_SINCE:
        yield PRODUCTS["fp8"], lambda: _gemm_fp8(device)


def _gemm(device: torch.device, dtype: torch.dtype | None = None, *, tf32: bool = False) -> float:
    """Operations per second of a square matrix product on random numbers."""
    side, usual = GEMM[device.type]
    a, b = (torch.randn(side, side, device=device).to(dtype or usual) for _ in range(2))
    torch.backends.cuda.matmul.allow_tf32 = tf32
    return _product_rate(device, side, lambda: torch.mm(a, b))


def _gemm_fp8(device: torch.device) -> float:
    side, _ = GEMM[device.type]
    a, b = (float8.scaled(torch.randn(side, side, device=device), float8.FORWARD) for _ in range(2))
    return _product_rate(
        device, side, lambda: float8.multiplied(a[0], b[0].t(), a[1], b[1], fast=True)
    )


def _product_rate(device: torch.device, side: int, product: Callable[[], object]) -> float:
    until_s = time.perf_counter() + WARM_S
    while time.perf_counter() < until_s:
        product()
        drain(device)
    return 2 * side**3 / _median_s(device, product)


def _copy(device: torch.device) -> float:
    count = COPY_B[device.type]
    source = torch.ones(count, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * count / _median_s(device, lambda: target.copy_(source))


def _transfer(device: torch.device, *, pinned: bool) -> float:
    source = torch.ones(TRANSFER_B, dtype=torch.uint8, pin_memory=pinned)
    target = torch.empty(TRANSFER_B, dtype=torch.uint8, device=device)
    return TRANSFER_B / _median_s(device, lambda: target.copy_(source, non_blocking=pinned))


def _launch() -> float:
    """Seconds of the host and the device per empty kernel."""
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        from_s = time.perf_counter()
        for _ in range(LAUNCHES // ROUNDS):
            torch.cuda._sleep(1)  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        times.append((time.perf_counter() - from_s) / (LAUNCHES // ROUNDS))
    return statistics.median(times)


def _python() -> float:
    """Seconds of a fixed loop in plain Python."""
    times = []
    for _ in range(ROUNDS):
        from_s, total = time.perf_counter(), 0
        for number in range(LOOP):
            total += number & 7
        times.append(time.perf_counter() - from_s)
    return statistics.median(times)


def _median_s(device: torch.device, work: Callable[[], object]) -> float:
    """Seconds of ``work`` by the device's own clock; the first time does not count."""
    mark, times = maker(device), []
    work()
    for _ in range(ROUNDS):
        start, end = mark(), mark()
        start.record()
        work()
        end.record()
        drain(device)
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)


def main() -> int:
    """Measure the device that is named and print one line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", help="cpu, cuda or cuda:N; by default the first GPU, or cpu")
    parser.add_argument("--beside", nargs="*", default=(), help="devices that it has links to")
    asked = parser.parse_args()
    print(measure(choose(asked.device), asked.beside).model_dump_json())  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
