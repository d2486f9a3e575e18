"""Small pictures of the largest changes between two revisions: each case before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from sqlalchemy.orm import Session

from service.dashboard.sparkline import before_after
from service.history.queries import values_around
from service.schemas.series import ChangeVerdict, RevisionChange
from service.wording import formats

MOST_PLOTS = 12
AROUND = 30
"""Points on each side that are drawn at most."""


@dataclass(frozen=True, slots=True)
class PlottedChange:
    """A case's change with its history on both sides."""

    change: RevisionChange
    plot: Markup


def plotted(session: Session, changes: Sequence[RevisionChange]) -> list[PlottedChange]:
    """The largest changes that have a history, those that are sure first."""
    known = [one for one in changes if one.change is not None]
    known.sort(key=lambda one: (one.verdict is ChangeVerdict.UNCLEAR, -abs(one.change or 0.0)))
    return list(_plotted(session, known[:MOST_PLOTS]))


def _plotted(session: Session, changes: Sequence[RevisionChange]) -> Iterator[PlottedChange]:
    for one in changes:
        if not (one.series_id and one.baseline and one.contender):
            continue
        ends = one.baseline.revision_at, one.contender.revision_at
        if ends[0] >= ends[1]:  # backwards: time would run from right to left
            continue
        sides = values_around(session, one.series_id, ends, AROUND)
        if min(map(len, sides)) and max(map(len, sides)) > 1:
            values = [
                formats.quantity(end.value, one.unit) for end in (one.baseline, one.contender)
            ]
            label = f"{one.case.key}: {values[0]} at the baseline, {values[1]} at the contender"
            yield PlottedChange(one, before_after(*sides, label))
