"""Two revisions measured side by side on one device, in short windows in turn (a duet).

Bulej et al., "Duet benchmarking" (ICPE 2020): what disturbs one side of a pair disturbs the other
one as well, so the difference is surer than either number.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchmarks.contracts import values
from benchmarks.contracts.measurement import Window

Turns = Annotated[int, Field(strict=True, ge=4, le=200)]
TurnSeconds = Annotated[float, Field(strict=True, gt=0, le=60)]


class Duet(values.Contract):
    """Asks a job to measure a baseline beside its own revision."""

    baseline: values.Revision
    baseline_first: values.Flag = True
    """The baseline starts first and has the first turn; alternates from pair to pair."""
    turns: Turns = 5
    """Windows of each side that count. With six, recorded pairs of nanoGPT differ by 0.17 % at one
    clock instead of 0.20 %, those of ResNet-50 by the same (benchmarks/results/h200)."""
    turn_s: TurnSeconds = 0.45
    """Least length of a window, in s of timed steps."""


class DuetSide(values.Contract):
    """One side's part in a duet, as its process is told."""

    socket_fd: values.Count
    """The descriptor of a stream socket; the other side holds its other end."""
    first: values.Flag
    turns: Turns
    turn_s: TurnSeconds


class Turn(values.Contract):
    """One window of one side."""

    window: Window
    steps: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
    """Timed ones; the window holds a few more before them, which fill the device's queue."""
    step_s: Annotated[float, Field(strict=True, gt=0, le=1e9)]
    """Mean of the timed steps."""
    sm_clock_hz: values.Number | None = None
    """Mean clock of the device's SMs over the window, as they counted it."""
