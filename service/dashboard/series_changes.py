"""The level changes of a series, joined with their findings. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from service import findings
from service.analysis.detection.windows import LEAST_POINTS
from service.dashboard.figures import Judged, Step
from service.findings import ACTIVE, FindingKind, FindingSummary
from service.history.analysis import load_analysis
from service.history.placed_changes import PlacedChange
from service.history.queries import taken_out
from service.history.types import Series, SeriesPoint
from service.models import FindingRow, FindingSeries


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of level as the history shows it, or as a finding knows it before that."""

    step: Step
    before: float
    after: float
    low: float
    high: float
    doubt: float
    """Probability that there is no such change."""
    last_good: str | None
    first_bad: str
    finding: FindingSummary | None


def changes_of(session: Session, series: Series, chosen: str = "") -> list[LevelChange]:
    """The changes of a series in their order.

    A finding whose change the history does not show (yet) is among them while it asks for
    attention, and so is the ``chosen`` one in any case.
    """
    standing = load_analysis(session, series.id)
    about = {link.change_id: (link, finding) for link, finding in _links(session, series.id)}
    changes = [_from_history(each, about.pop(each.id, None), chosen) for each in standing.changes]
    changes += [
        _from_link(link, finding, chosen)
        for link, finding in about.values()
        if finding.id == chosen or (finding.state in ACTIVE and not link.ended)
    ]
    return sorted(changes, key=lambda each: each.step.at)


def judged(session: Session, series: Series, changes: Iterable[LevelChange]) -> Judged:
    """Return what a chart draws of ``changes``, and the reasons for its hollow points."""
    count = sum(point.counts for point in series.points)
    return Judged(
        steps=tuple(change.step for change in changes),
        one_level=count >= LEAST_POINTS,
        reasons=reasons(session, series.points),
    )


def reasons(session: Session, points: Sequence[SeriesPoint]) -> dict[str, str]:
    """Return the reasons why ``points`` do not count, by result id."""
    disturbed = {
        each.result_id: f"disturbed: {each.disturbed}" for each in points if each.disturbed
    }
    wanted = [point.result_id for point in points if point.excluded]
    found: dict[str, str] = {}
    for start in range(0, len(wanted), 500):  # stays below what a database takes in one statement
        found |= taken_out(session, wanted[start : start + 500])
    return disturbed | found


def _links(session: Session, series_id: str) -> list[tuple[FindingSeries, FindingSummary]]:
    summaries = {each.id: each for each in findings.of_series(session, series_id)}
    wanted = (
        select(FindingSeries)
        .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
        .where(FindingSeries.series_id == series_id)
        .order_by(FindingSeries.first_bad_at, FindingRow.id)
    )
    rows = session.scalars(wanted)
    return [(row, summaries[row.finding_id]) for row in rows if row.finding_id in summaries]


def _from_history(
    placed: PlacedChange, about: tuple[FindingSeries, FindingSummary] | None, chosen: str
) -> LevelChange:
    link, finding = about or (None, None)
    told = placed.change
    return LevelChange(
        step=Step(
            result_id=placed.first_bad_result,
            at=placed.first_bad_at,
            effect=told.effect,
            improvement=told.improvement,
            finding=finding.id if finding and finding.id != chosen else "",
            chosen=finding is not None and finding.id == chosen,
        ),
        before=told.before,
        after=told.after,
        low=told.effect_low,
        high=told.effect_high,
        doubt=min(1.0 - told.confidence, link.doubt if link else 1.0),
        last_good=placed.last_good,
        first_bad=placed.first_bad,
        finding=finding,
    )


def _from_link(link: FindingSeries, finding: FindingSummary, chosen: str) -> LevelChange:
    step = Step(
        result_id=link.first_bad_result,
        at=link.first_bad_at,
        effect=link.effect,
        improvement=finding.kind is FindingKind.IMPROVEMENT,
        finding="" if finding.id == chosen else finding.id,
        chosen=finding.id == chosen,
    )
    return LevelChange(
        step=step,
        before=link.before,
        after=link.after,
        low=link.effect_low,
        high=link.effect_high,
        doubt=link.doubt,
        last_good=finding.last_good,
        first_bad=finding.first_bad,
        finding=finding,
    )
