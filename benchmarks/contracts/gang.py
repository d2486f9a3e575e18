"""Ranks: the processes that train one model together, on a GPU each."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from benchmarks.contracts import values

PEER_GONE = "peer_gone"
"""Flag of a rank that failed only because another one went away; no Result of a gang has it."""


class GangRank(values.Contract):
    """One rank's place in its gang, as its process is told."""

    rank: values.Count
    world: Annotated[int, Field(strict=True, ge=1, le=64)]
    rendezvous: Path
    """The file through which the ranks find each other."""
    exchanges: values.Flag = True
    """False: with ddp each rank keeps its gradients for itself."""
    patience_s: values.Seconds | None = None
    """Longest time without a finished step, in phases that have such a limit, in place of it."""


class RankTimes(values.Contract):
    """One rank's own times in a pass, means over its steps."""

    step_s: values.Seconds
    stall_s: values.Seconds
    """Waiting for its own loader."""


class GangBlock(values.Contract):
    """A block of a gang's steps, as the rank that took longest timed it."""

    step_s: values.Seconds
    """Mean of its steps."""
    sm_clock_hz: values.Number | None = None
    """Mean clock as the SMs counted it, of the rank whose clock was lowest."""
    exchanges: values.Flag = True


class Account(values.Contract):
    """A step of one GPU alone and, part by part, what a gang adds to it; without input, in s.

    Where ``clock_s`` is known, each part but the first is told at the clock that the gang had.
    """

    single_s: values.Seconds
    clock_s: values.Number | None = None
    """One GPU alone would take so much longer at the clock of the gang; None where SMs cannot be
    asked, or where the launch does not show how its steps follow their clock."""
    neighbours_s: values.Number
    """The same on all GPUs at once, each for itself."""
    wrapper_s: values.Number | None = None
    """The way of sharing, without exchange; None where nothing runs without exchange."""
    exchange_s: values.Number
    """Measured within the gang, blocks with and without exchange in turn. Without ``wrapper_s``
    all that sharing adds."""
    gang_s: values.Seconds

    @property
    def residual_s(self) -> float:
        """The part of the gang's step that no other part explains."""
        parts = (self.clock_s, self.neighbours_s, self.wrapper_s, self.exchange_s)
        return self.gang_s - self.single_s - sum(part or 0.0 for part in parts)


class TracedRank(values.Contract):
    """One rank in the traced steps of its gang: where its time goes, means over the steps, in s.

    ``compute_s``, ``transfer_s``, ``wait_s`` and ``idle_s`` make up the step.
    """

    step_s: values.Seconds
    compute_s: values.Seconds
    """Something else than communication runs; on a CPU an operator."""
    transfer_s: values.Seconds
    """Exposed transfer: nothing but communication runs, and all ranks have arrived at it."""
    wait_s: values.Seconds
    """Exposed wait: nothing but communication runs, and another rank has not yet arrived at it."""
    idle_s: values.Seconds
    """Nothing runs."""
    contention_s: values.Number | None = None
    """The sum of its kernels takes so much longer than without exchange; None where nothing runs
    without exchange."""
    lateness_s: Annotated[tuple[values.Seconds, ...], Field(min_length=1, max_length=100)]
    """Seconds of each traced step by which it arrives at collectives later than the earliest rank,
    told by how much less exposed communication, and contention where known, hold it up."""

    @property
    def late_s(self) -> float:
        """Median lateness of a step, which one disturbed step does not move."""
        return statistics.median(self.lateness_s)


class GangTrace(values.Contract):
    """A few steps of a gang that every rank traced, after its timed passes."""

    ranks: tuple[TracedRank, ...] = Field(default=(), max_length=64)
    """By number; empty if ``absent`` says why."""
    collectives: values.Number = 0.0
    """Collectives of a step."""
    absent: values.Line = ""

    @model_validator(mode="after")
    def _says_why_it_is_empty(self) -> Self:
        if bool(self.ranks) == bool(self.absent):
            raise ValueError("a trace has ranks, or says why it has none")
        return self

    @property
    def transfer_s(self) -> float:
        """Exposed transfer of a step, mean over ranks."""
        return statistics.fmean(rank.transfer_s for rank in self.ranks)

    @property
    def wait_s(self) -> float:
        """Exposed wait of a step, mean over ranks."""
        return statistics.fmean(rank.wait_s for rank in self.ranks)

    @property
    def contention_s(self) -> float | None:
        """Contention of a step, mean over ranks; None where nothing runs without exchange."""
        known = [rank.contention_s for rank in self.ranks if rank.contention_s is not None]
        return statistics.fmean(known) if known else None


class Straggler(values.Contract):
    """A rank that the others wait for, in most steps of each of at least two launches."""

    rank: values.Count
    late_s: values.Seconds
    """Seconds of a step by which it arrives late, median over launches."""
    resolution_s: values.Seconds
    """The lateness that equal ranks may show."""
    launches: Annotated[int, Field(strict=True, ge=2)]
    """Launches that show it."""
