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
    patience_s: values.Seconds | None = None
    """Longest time without a finished step, in phases that have such a limit, in place of it."""


class RankTimes(values.Contract):
    """One rank's own times in a pass, means over its steps."""

    step_s: values.Seconds
    stall_s: values.Seconds
    """Waiting for its own loader."""
