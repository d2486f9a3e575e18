"""A bisection, as the API takes and answers it."""

from __future__ import annotations

from enum import StrEnum


class BisectionStage(StrEnum):
    """What a bisection does now."""

    ENDS = "verifying_ends"
    SEARCH = "searching"
    CULPRIT = "verifying_culprit"
    DONE = "done"


class BisectionOutcome(StrEnum):
    """How a bisection ended."""

    CULPRIT = "culprit"
    """One commit changed it, verified beside its parent."""
    RANGE = "range"
    """One of several commits did; those between cannot be measured."""
    ENVIRONMENT = "environment"
    """The ends do not differ when measured today."""
    NOT_REPRODUCED = "not_reproduced"
    """The ends do not differ, and both are as fast as the finding's good level."""
    UNDECIDED = "undecided"
    """The budget ended, or nothing could be measured."""
