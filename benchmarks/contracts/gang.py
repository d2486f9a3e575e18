"""Ranks: the processes that train one model together, on a GPU each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

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


class Account(values.Contract):
    """A step of one GPU alone and, part by part, what a gang adds to it; without input, in s."""

    single_s: values.Seconds
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
        parts = self.single_s + self.neighbours_s + (self.wrapper_s or 0.0) + self.exchange_s
        return self.gang_s - parts
