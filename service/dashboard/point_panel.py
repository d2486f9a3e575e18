"""One point of a history with what can be done about it, and two of them side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import JobState
from service import models
from service.dashboard import environments, series_changes
from service.history import compare, explored
from service.history.queries import facts_of, name_of, points_of_results
from service.history.run_noise import spreads_of
from service.schemas import series as schemas

_WAITING = (JobState.QUEUED, JobState.LEASED, JobState.RUNNING)
_AGAIN = ("case", "revision", "protocol", "requires", "timeout_s")
"""What a job that measures again asks for, as the first one did."""


@dataclass(frozen=True, slots=True)
class PointPanel:
    """A point, where it stands in its history, and the job behind it."""

    series: schemas.SeriesName
    point: schemas.SeriesPoint
    revision: models.Revision
    reason: str
    """Why it is not analysed; empty if it is."""
    earlier: str
    """The result of the point before it; empty if there is none."""
    later: str
    change: series_changes.LevelChange | None
    """The change of level that begins with it."""
    last_good: str
    """The result of the last point of the level before its own."""
    again: dict[str, Any] | None
    """The request that measures it again; None if it was imported."""
    measuring: str
    """The job that does so now."""

    @property
    def id(self) -> str:
        """The name of the point in an address."""
        return f"{self.series.id}.{self.point.result_id}"


@dataclass(frozen=True, slots=True)
class PointPair:
    """Two points, the older one first."""

    before: PointPanel
    after: PointPanel
    change: schemas.RevisionChange | None
    """Of one series between two revisions."""
    ratio: schemas.Ratio | None
    """Of two series in the same metric and unit, by what each measurement says of itself."""
    differences: tuple[environments.FingerprintDifference, ...]
    """Between their environments."""


def load_panel(session: Session, name: str) -> PointPanel | None:
    """Read a point by its name in an address; None if there is no such point."""
    series_id, _, result_id = name.partition(".")
    row = session.get(models.SeriesRow, series_id)
    points = points_of_results(session, series_id, [result_id]) if row else []
    if row is None or not points:
        return None
    series, point = name_of(row), points[0]
    changes = series_changes.changes_of(session, series)
    begun = [one for one in changes if one.placed.first_bad_at <= point.revision_at]
    since = begun[-1].placed.first_bad_at if begun else point.revision_at
    job = _job(session, result_id)
    return PointPanel(
        series=series,
        point=point,
        revision=session.get_one(models.Revision, point.revision),
        reason=series_changes.reasons(session, points).get(result_id, ""),
        earlier=explored.beside(session, series_id, point, later=False),
        later=explored.beside(session, series_id, point, later=True),
        change=next((c for c in changes if c.placed.first_bad_result == result_id), None),
        last_good=explored.last_counted_before(session, series_id, since),
        again=None if job is None else _again(job),
        measuring=_measuring(session, job.id) if job else "",
    )


def _job(session: Session, result_id: str) -> models.Job | None:
    of_result = models.Job.id == models.ResultRow.job_id
    query = select(models.Job).join(models.ResultRow, of_result)
    return session.scalars(query.where(models.ResultRow.id == result_id)).first()


def _again(job: models.Job) -> dict[str, Any]:
    return {"rerun_of": job.id} | {name: job.spec[name] for name in _AGAIN}


def _measuring(session: Session, job_id: str) -> str:
    again = models.Job.state.in_(_WAITING), models.Job.rerun_of == job_id
    return session.scalar(select(models.Job.id).where(*again).limit(1)) or ""


def load_pair(session: Session, one: PointPanel, other: PointPanel) -> PointPair:
    """Compare two points, by the noise of their history if they are of one."""
    before, after = sorted((one, other), key=lambda p: (p.point.revision_at, p.point.measured_at))
    facts = facts_of(session, (before.point.environment, after.point.environment))
    return PointPair(
        before,
        after,
        _change(session, before, after),
        _ratio(before, after),
        environments.changed_facts(*(facts[p.point.environment] for p in (before, after))),
    )


def _change(
    session: Session, before: PointPanel, after: PointPanel
) -> schemas.RevisionChange | None:
    if before.series.id != after.series.id or before.point.revision == after.point.revision:
        return None
    both = schemas.Series.of(before.series, (before.point, after.point))
    known = compare.Known(spreads_of(session, [both.id]))
    return compare.compare(both, before.point.revision, after.point.revision, known=known)


def _ratio(before: PointPanel, after: PointPanel) -> schemas.Ratio | None:
    alike = before.series.metric, before.series.unit
    if alike != (after.series.metric, after.series.unit):
        return None
    return compare.ratio(after.point, before.point)
