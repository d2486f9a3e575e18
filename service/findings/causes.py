"""Puts changes that have one cause together. Pure.

What changed at one place of the history has one cause, whichever case, metric, worker or hardware
it was seen on. To part it takes evidence: parts moved in different directions, or different things
changed in cases that have nothing in common.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from benchmarks.catalog.metrics import metric, reading_order
from service.findings.rules import Candidate, by_doubt
from service.schemas.findings import Certainty, FindingKind
from service.schemas.series import SeriesName

CellKey = tuple[str, tuple[tuple[str, str], ...]]
"""A case on one kind of hardware."""
Owner = tuple[str, str]
"""A project, and the source of what was imported into it."""
Subject = tuple[str, FindingKind]
"""What changed, and which way."""


def cell_key(case_key: str, comparability: dict[str, str]) -> CellKey:
    """Name a case on one kind of hardware."""
    return case_key, tuple(sorted(comparability.items()))


def cell_of(series: SeriesName) -> CellKey:
    """Name the case and the hardware that a series is of."""
    return cell_key(series.case.key, series.comparability)


def owner_of(series: SeriesName) -> Owner:
    """Name whose history a series is, and where that was measured."""
    return series.project, series.source


def subject_of(change: Candidate) -> Subject:
    """Name what changed: a metric, or the one that moves it, and for better or for worse."""
    return metric(change.series.metric).subject, change.kind


def headline_order(change: Candidate) -> tuple[tuple[int, str], bool, float, str]:
    """Sort key: the metric that people read first, what was measured again, the surest change."""
    measured_again = change.certainty is Certainty.CONFIRMED
    return reading_order(change.series.metric), not measured_again, *by_doubt(change)


SPREAD = 0.35
"""Standard deviation of the sizes of the changes that one cause makes, as a share of one of them:
the same code weighs more in one case than in another."""
LEAST_PART = 0.5
"""Of a cause's size: what moved by less has a cause of its own, or none."""
SUPPORT = 5.0
"""Support from which a series shares a cause: 150 to 1. Of 100 series that did not move, less than
one joins a cause of 1 % with a noise of 0.3 %."""


def support(cause: float, shift: float, error: float) -> float:
    """Return ln of how much likelier a shift is with a cause than without any.

    Args:
        cause: size of a change that the cause made, ln(after / before).
        shift: of the series in question, likewise.
        error: standard deviation of ``shift``.
    """
    return -math.inf if shift / cause < LEAST_PART else _odds(cause, shift, error)


def stayed(cause: float, shift: float, error: float) -> bool:
    """Return True if a shift is likelier without a cause than with it, whatever else it may be.

    What surely moved by a small part of the cause neither has that cause nor stayed.
    """
    return _odds(cause, 0.0 if shift / cause < 0 else shift, error) < 0


def _odds(cause: float, shift: float, error: float) -> float:
    spread = math.hypot(error, SPREAD * cause)
    with_it = -0.5 * ((shift - cause) / spread) ** 2 - math.log(spread)
    return with_it - (-0.5 * (shift / error) ** 2 - math.log(error))


def groups(changes: Iterable[Candidate]) -> list[tuple[Candidate, ...]]:
    """One group per cause, the change that names it first, and no series twice."""
    places: list[_Place] = []
    for change in sorted(changes, key=by_doubt):
        place = next((place for place in places if place.takes(change)), None)
        if place is None:
            place = _Place(owner_of(change.series), change.earliest, change.latest)
            places.append(place)
        place.add(change)
    return [part for place in places for part in parts(place.changes)]


def parts(changes: Iterable[Candidate]) -> list[tuple[Candidate, ...]]:
    """Part changes at one place: by direction, and by what changed where no case shows both.

    A cell moved as its first metric in the reading order did: the others follow from that.
    """
    by_cell: dict[CellKey, list[Candidate]] = {}
    for change in sorted(changes, key=headline_order):
        by_cell.setdefault(cell_of(change.series), []).append(change)
    found: list[tuple[set[Subject], list[Candidate]]] = []
    for cell in sorted(by_cell.values(), key=lambda cell: headline_order(cell[0])):
        subject = subject_of(cell[0])
        part = next((part for part in found if subject in part[0]), None)
        if part is None:
            part = {subject}, []
            found.append(part)
        part[0].update(other for other in map(subject_of, cell) if other[0] != subject[0])
        part[1].extend(cell)
    return [tuple(sorted(members, key=headline_order)) for _, members in found]


@dataclass(slots=True)
class _Place:
    """Revisions at which all of some changes may have begun."""

    owner: Owner
    earliest: datetime
    latest: datetime
    changes: list[Candidate] = field(default_factory=list)

    def takes(self, change: Candidate) -> bool:
        meets = change.earliest <= self.latest and self.earliest <= change.latest
        again = any(other.series.id == change.series.id for other in self.changes)
        return meets and not again and owner_of(change.series) == self.owner

    def add(self, change: Candidate) -> None:
        self.earliest = max(self.earliest, change.earliest)
        self.latest = min(self.latest, change.latest)
        self.changes.append(change)


def same_cause(change: Candidate, others: Sequence[Candidate]) -> bool:
    """Return True if a change at the place of ``others``, which share a cause, has that cause.

    It is of a case and hardware of theirs, or it is a change of the same thing in one direction.
    What was imported never shares a cause with what another source, or a worker here, measured.
    """
    if any(owner_of(one.series) != owner_of(change.series) for one in others):
        return False
    here, subject = cell_of(change.series), subject_of(change)
    return any(cell_of(one.series) == here or subject_of(one) == subject for one in others)
