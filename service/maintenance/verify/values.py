"""The facts that are checked, and the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.models import Attempt, Job, ResultRow, Submission


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log; ``attempt`` is None for the job's own steps."""

    attempt: int | None
    before: str | None
    after: str
    at: datetime
    worker: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class JobFacts:
    """All that the database says of one job: rows, in order attempts and results, and its log."""

    row: Job
    submission: Submission | None
    attempts: Sequence[Attempt]
    results: Sequence[ResultRow]
    log: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that is not kept, and the history that shows it."""

    promise: int
    subject: str
    """What breaks it, such as ``job 0193...``."""
    sentence: str
    history: Sequence[Event] = ()

    def __str__(self) -> str:
        """Return the subject and the sentence of the breach."""
        return f"{self.subject}: {self.sentence}"


class CheckOutcome(StrEnum):
    """The outcome of a check."""

    HELD = "held"
    BROKEN = "broken"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise, and how the database keeps it."""

    number: int
    promise: str
    outcome: CheckOutcome
    sentence: str = ""
    breaches: int = 0
    shortest: Breach | None = None
    others: Sequence[str] = ()
    """More of what breaks it, each in a sentence; of many the first ones."""


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """Every promise in order; ``warnings`` break none but should be known."""

    findings: Sequence[Finding]
    jobs: int
    results: int
    warnings: Sequence[str] = ()

    @property
    def kept(self) -> bool:
        """Return True if no promise is broken."""
        return all(finding.outcome is not CheckOutcome.BROKEN for finding in self.findings)
