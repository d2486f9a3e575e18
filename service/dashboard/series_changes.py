"""The level changes of a series, joined with their findings. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from service import findings, models
from service.analysis.detection.windows import LEAST_POINTS
from service.dashboard import environments, figures
from service.database.paging import batched
from service.findings.gather_evidence import as_reported
from service.history import queries
from service.history.analysis import load_analysis
from service.history.series_history import PlacedChange
from service.schemas import series as schemas
from service.schemas.findings import FindingSummary


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of level as the history shows it, or as a finding knows it before that."""

    placed: PlacedChange
    doubt: float
    """Probability that there is no such change."""
    finding: FindingSummary | None
    chosen: bool
    """It is the one that the page is about."""

    @property
    def step(self) -> figures.Step:
        """Give the change as a step for the chart."""
        return figures.Step(
            result_id=self.placed.first_bad_result,
            at=self.placed.first_bad_at,
            effect=self.placed.change.effect,
            improvement=self.placed.change.improvement,
            finding=self.finding.id if self.finding and not self.chosen else "",
            chosen=self.chosen,
        )


def changes_of(session: Session, series: schemas.SeriesName, chosen: str = "") -> list[LevelChange]:
    """The changes of a series in their order.

    A finding whose change the history does not show (yet) is among them while it asks for
    attention, and so is the ``chosen`` one in any case.
    """
    analysis = load_analysis(session, series.id)
    about = {row.change_id: (row, finding) for row, finding in _reported(session, series.id)}
    changes = []
    for placed in analysis.changes:
        row, finding = about.pop(placed.id, (None, None))
        doubt = min(1.0 - placed.change.confidence, row.doubt if row else 1.0)
        at_hand = finding is not None and finding.id == chosen
        changes.append(LevelChange(placed, doubt, finding, at_hand))
    changes += [
        LevelChange(as_reported(row, finding), row.doubt, finding, finding.id == chosen)
        for row, finding in about.values()
        if finding.id == chosen or (finding.state in findings.ACTIVE and not row.ended)
    ]
    return sorted(changes, key=lambda change: change.placed.first_bad_at)


def analysed(
    session: Session,
    series: schemas.Series,
    changes: Iterable[LevelChange],
    changed: environments.EnvironmentHistory,
) -> figures.Analysed:
    """Return what a chart draws of both kinds of changes, and why its hollow points are hollow."""
    count = sum(point.counts for point in series.points)
    return figures.Analysed(
        steps=tuple(change.step for change in changes),
        one_level=count >= LEAST_POINTS,
        reasons=reasons(session, series.points),
        environments=tuple(change.mark for change in changed.changes),
    )


def renewed(session: Session, series: Sequence[schemas.Series]) -> frozenset[str]:
    """Results at the end of series that were measured in another environment than before.

    Each is compared with the one before it of the same worker.
    """
    steps = [step for one in series if (step := environments.newest_step(one.points))]
    known = queries.facts_of(session, (point.environment for step in steps for point in step))
    return frozenset(
        after.result_id
        for before, after in steps
        if environments.tells(known[before.environment], known[after.environment])
    )


def environments_of(
    session: Session, points: Sequence[schemas.SeriesPoint]
) -> environments.EnvironmentHistory:
    """Find the places at which the environment of workers changed."""
    known = queries.facts_of(session, environments.around_changes(points))
    return environments.history_of(points, known)


def reasons(session: Session, points: Sequence[schemas.SeriesPoint]) -> dict[str, str]:
    """Return the reasons why ``points`` do not count, by result id."""
    disturbed = {
        point.result_id: f"disturbed: {point.disturbed}" for point in points if point.disturbed
    }
    ids = [point.result_id for point in points if point.excluded]
    excluded: dict[str, str] = {}
    for some in batched(ids):
        excluded |= queries.taken_out(session, some)
    return disturbed | excluded


def _reported(
    session: Session, series_id: str
) -> list[tuple[models.FindingSeries, FindingSummary]]:
    summaries = {summary.id: summary for summary in findings.of_series(session, series_id)}
    query = (
        select(models.FindingSeries)
        .join(models.FindingRow, models.FindingRow.id == models.FindingSeries.finding_id)
        .where(models.FindingSeries.series_id == series_id)
        .order_by(models.FindingSeries.first_bad_at, models.FindingRow.id)
    )
    rows = session.scalars(query)
    return [(row, summaries[row.finding_id]) for row in rows if row.finding_id in summaries]
