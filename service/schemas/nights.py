"""The report of a night: what the schedules of one date measured, and what that showed."""

from __future__ import annotations

from datetime import date, datetime

from service.schemas.costs import Spent
from service.schemas.document import Document
from service.schemas.findings import FindingKind, FindingState


class NightFinding(Document):
    """A finding that was opened or recovered in the night."""

    id: str
    headline: str
    kind: FindingKind
    state: FindingState
    """At the time of the report."""
    project: str


class Unmeasured(Document):
    """Cases that were asked for and have no result, for one reason."""

    why: str
    cases: list[str]
    waits: bool
    """Whether they may still be measured."""


class Coverage(Document):
    """The measured part of a workload's cases."""

    workload: str
    asked: int
    measured: int


class Cost(Spent):
    """The use of the devices by all attempts that began in the night, scheduled or not."""

    energy_j: float | None
    """Energy of the timed passes, by the devices' counters; None if no result carries it."""
    results: int
    with_energy: int
    """Results whose devices counted energy."""


class NightReport(Document):
    """A night: changes, recoveries, what could not be measured, and the cost."""

    night: date
    project: str | None
    """Of this project alone, or if it is empty of what belongs to none; None: of all that the
    reader may see."""
    begins: datetime
    """When its first slot was due; without a slot midnight, UTC."""
    ends: datetime
    """A day later, or with the first slot of the next date."""
    finished: bool
    """Whether every scheduled case has come to its end."""
    schedules: list[str]
    revisions: list[str]
    """Those that the schedules had measured."""
    changed: list[NightFinding]
    """Findings that were opened."""
    recovered: list[NightFinding]
    """Findings that the service or a person closed as resolved."""
    expected_false: float
    """How many of those opened are expected to be false, by the detector's doubts; those withdrawn
    or not reproduced since count as one each."""
    doubted: int
    """For how many of those opened the detector gives a doubt."""
    unmeasured: list[Unmeasured]
    not_submitted: list[str]
    """Schedules whose slot submitted nothing, each with the reason if it is known."""
    coverage: list[Coverage]
    cost: Cost


class NightSummary(Document):
    """A night that was reported."""

    night: date
    project: str
    """Empty: of what belongs to none."""
    at: datetime
    """When it was reported."""
    headline: str
