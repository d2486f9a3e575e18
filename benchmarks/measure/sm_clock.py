"""The mean clock of a GPU's SMs over a span, counted by the SMs themselves.

A kernel stores the cycle counter and the nanosecond timer of every SM at both ends of a span. It
runs in the order of the compute stream, outside of what is timed. The kernel is PTX, which every
NVIDIA driver compiles; the driver is called directly, so that no compiler has to be installed.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from statistics import fmean
from typing import Any, Protocol

import torch

log = logging.getLogger(__name__)

Stamp = Sequence[Sequence[int]]
"""SM, nanoseconds and cycles, one row for each block of threads."""
_PTX = b"""
.version 6.3
.target sm_50
.address_size 64
.visible .entry stamp(.param .u64 into)
{
    .reg .pred %first;
    .reg .b32 %r<4>;
    .reg .b64 %rd<8>;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %first, %r1, 0;
    @%first bra DONE;
    ld.param.u64 %rd1, [into];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd3, %r2, 24;
    add.s64 %rd4, %rd2, %rd3;
    mov.u32 %r3, %smid;
    cvt.u64.u32 %rd5, %r3;
    mov.u64 %rd6, %globaltimer;
    mov.u64 %rd7, %clock64;
    st.global.u64 [%rd4], %rd5;
    st.global.u64 [%rd4+8], %rd6;
    st.global.u64 [%rd4+16], %rd7;
DONE:
    ret;
}
\0"""
_THREADS, _BLOCKS_PER_SM = 1024, 2
"""So many threads that an SM has no room for a third block: each SM gets one."""


class SpanClock(Protocol):
    """Counts the cycles of one span after the other."""

    def start(self) -> None:
        """Begin the span once all work queued so far is done."""

    def stop(self) -> None:
        """End the span likewise."""

    def mean_hz(self) -> float | None:
        """Give the mean clock of the last span, which is over; None if nobody knows."""


class NoClock:
    """Stands where no SM can be asked."""

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def mean_hz(self) -> float | None:
        """Return None."""
        return None


class SmClock:
    """Counts the cycles of a CUDA device's SMs.

    Raises:
        OSError: there is no NVIDIA driver, or it refuses the kernel.
    """

    def __init__(self, device: torch.device) -> None:
        sms = torch.cuda.get_device_properties(device).multi_processor_count
        self._blocks = _BLOCKS_PER_SM * sms
        self._stamps = torch.zeros((2, self._blocks, 3), dtype=torch.int64, device=device)
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(self._module), _PTX)
        self._call("cuModuleGetFunction", ctypes.byref(self._kernel), self._module, b"stamp")
        self._launch(0)  # the first launch takes longer

    def start(self) -> None:
        """Begin the span once all work queued so far is done."""
        self._launch(0)

    def stop(self) -> None:
        """End the span likewise."""
        self._launch(1)

    def mean_hz(self) -> float | None:
        """Give the mean clock of the last span; waits until it is over."""
        return mean_hz(*self._stamps.tolist())

    def _launch(self, place: int) -> None:
        into = ctypes.c_void_p(self._stamps[place].data_ptr())
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(into))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        grid, block = (self._blocks, 1, 1), (_THREADS, 1, 1)
        self._call("cuLaunchKernel", self._kernel, *grid, *block, 0, stream, parameters, None)

    def _call(self, name: str, *arguments: Any) -> None:
        if error := getattr(self._driver, name)(*arguments):
            raise OSError(f"{name} failed with CUDA error {error}")


def of(device: torch.device) -> SpanClock:
    """Return what counts the cycles of ``device``, as far as it can be asked."""
    if device.type != "cuda" or torch.version.hip:
        return NoClock()
    try:
        return SmClock(device)
    except OSError as error:
        log.warning("the device's own clock cannot be read, telemetry tells it: %s", error)
        return NoClock()


def mean_hz(begin: Stamp, end: Stamp) -> float | None:
    """Give the mean clock of the SMs that both stamps show; None if there is none."""
    first, last = ({row[0]: row for row in reversed(stamp)} for stamp in (begin, end))
    rates = [
        1e9 * (last[sm][2] - cycles) / (last[sm][1] - ns)
        for sm, ns, cycles in first.values()
        if sm in last and last[sm][1] > ns
    ]
    return fmean(rates) if rates else None
