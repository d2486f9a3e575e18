"""Lists, sets and removes the thresholds that teams have chosen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

import orjson
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric
from service.database.session import found
from service.findings.thresholds import threshold_of
from service.history.record import digest_of
from service.models import SeriesRow, ThresholdRow
from service.schemas.errors import Invalid
from service.schemas.series import SeriesName
from service.schemas.thresholds import Never, ThresholdView


@dataclass(frozen=True, slots=True)
class Scope:
    """The series that a threshold is about; a part that is empty takes in everything."""

    project: str = ""
    workload: str = ""
    metric: str = ""
    series_id: str | None = None

    @property
    def id(self) -> str:
        """Name it by what it says."""
        return digest_of(orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS))[:32]


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody wants to hear of a scope, and why."""

    least_effect: float | Never
    actor: str
    reason: str


def list_thresholds(session: Session) -> list[ThresholdView]:
    """All thresholds, by scope."""
    parts = (ThresholdRow.project, ThresholdRow.workload, ThresholdRow.metric, ThresholdRow.id)
    return [_view(row) for row in session.scalars(select(ThresholdRow).order_by(*parts))]


def load_threshold(session: Session, series: SeriesName) -> ThresholdView | None:
    """Read the threshold that decides for a series; None if that is the default."""
    about = or_(ThresholdRow.series_id.is_(None), ThresholdRow.series_id == series.id)
    rows = session.scalars(select(ThresholdRow).where(about))
    return threshold_of(map(_view, rows), series)


def put(session: Session, scope: Scope, choice: Choice, now: datetime) -> ThresholdView:
    """Set the threshold of a scope, or replace it; it holds from the next analysis on.

    Raises:
        NotFound: there is no such series.
        Invalid: a series is named beside other parts, or changes of the metric open no finding.
    """
    size = None if choice.least_effect == "never" else choice.least_effect
    scope, about = _of_series(session, scope) if scope.series_id else (scope, scope.metric)
    if about and size is not None and not metric(about).is_watched:
        raise Invalid(f"{metric(about).title} only explains findings: its changes open none.")
    row = session.get(ThresholdRow, scope.id) or ThresholdRow(id=scope.id, **asdict(scope))
    row.least_effect, row.set_at = size, now
    row.actor, row.reason = choice.actor, choice.reason
    session.add(row)
    session.flush()
    return _view(row)


def remove(session: Session, threshold_id: str) -> None:
    """Remove a threshold: the next wider rule, or the default, decides from now on.

    Raises:
        NotFound: there is none of that id.
    """
    row = found(session, ThresholdRow, threshold_id)
    session.delete(row)
    session.flush()


def said(rule: ThresholdView) -> str:
    """Write a rule's id, scope and size for the audit log."""
    names = ("project", "workload", "metric", "series_id", "least_effect")
    parts = ((name, getattr(rule, name)) for name in names)
    return " ".join([rule.id, *(f"{name}={value}" for name, value in parts if value is not None)])


def _of_series(session: Session, scope: Scope) -> tuple[Scope, str]:
    """The scope of one series, and its metric."""
    row = found(session, SeriesRow, scope.series_id)
    if scope != Scope(series_id=scope.series_id):
        raise Invalid("A series has a project, a workload and a metric: name the series alone.")
    return Scope(project=row.project, series_id=row.id), row.metric


def _view(row: ThresholdRow) -> ThresholdView:
    scope = {name: getattr(row, name) or None for name in ("project", "workload", "metric")}
    least = "never" if row.least_effect is None else row.least_effect
    return ThresholdView.of(row, **scope, least_effect=least)
