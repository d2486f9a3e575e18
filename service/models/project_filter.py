"""Projects: in the session of whoever is bound to one, nothing of another one can be found.

One table says of each model whose its rows are. What is bound to a project adds that to every query
of its session, so that no query can forget it; `service.findings` and the others that look at
histories without anybody asking keep projects apart themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar, cast

from sqlalchemy import ColumnElement, Table, and_, event, exists, literal, or_, select, true
from sqlalchemy.orm import InstrumentedAttribute, ORMExecuteState, Session, with_loader_criteria

from service import models

T = TypeVar("T")
_Column = InstrumentedAttribute[Any]

OWNED: Sequence[type[models.ProjectOwned]] = (
    models.BisectionRow,
    models.ComparisonRow,
    models.FindingRow,
    models.ImportedPoint,
    models.Job,
    models.OutboxEvent,
    models.ResultRow,
    models.Schedule,
    models.SeriesRow,
    models.Submission,
)
"""What says itself whose it is."""
THROUGH: Mapping[type[models.Base], tuple[_Column, ...]] = {
    models.Attempt: (models.Attempt.job_id, models.Job.id),
    models.ConfirmationRow: (models.ConfirmationRow.series_id, models.SeriesRow.id),
    models.DeliveryRow: (models.DeliveryRow.event_id, models.OutboxEvent.id),
    models.Exclusion: (models.Exclusion.result_id, models.ResultRow.id),
    models.FindingEvent: (models.FindingEvent.finding_id, models.FindingRow.id),
    models.FindingSeries: (models.FindingSeries.finding_id, models.FindingRow.id),
    models.IdempotencyKey: (models.IdempotencyKey.submission_id, models.Submission.id),
    models.JobEvent: (models.JobEvent.job_id, models.Job.id),
    models.AnalysisRow: (models.AnalysisRow.series_id, models.SeriesRow.id),
    models.ChangeRow: (models.ChangeRow.series_id, models.SeriesRow.id),
    models.Point: (models.Point.series_id, models.SeriesRow.id),
    models.Revision: (
        models.Revision.name,
        models.Submission.revision,
        models.ImportedPoint.revision,
    ),
    models.SettledWindow: (models.SettledWindow.series_id, models.SeriesRow.id),
    models.ScheduleRun: (models.ScheduleRun.schedule, models.Schedule.name),
    models.ArtifactRow: (models.ArtifactRow.result_id, models.ResultRow.id),
    models.ComparisonJob: (models.ComparisonJob.comparison_id, models.ComparisonRow.id),
}
"""What is of whoever owns what it belongs to: its column, and the owner's, or those of several. A
revision is seen by everybody who has submitted or imported something at it; its place in the order
is the same for all."""
SHARED: frozenset[type[models.Base]] = frozenset(
    {
        models.AuditEvent,
        models.BrowserSession,
        models.CommitRangeRow,
        models.Eligibility,
        models.EnrolmentRow,
        models.EnvironmentRow,
        models.ForgeComment,
        models.LabelSet,
        models.TokenRow,
        models.PendingAnalysis,
        models.WorkerRow,
        models.WriteProbe,
    }
)
"""What is of nobody in particular."""
FOR_ALL: frozenset[type[models.Base]] = frozenset({models.AnnotationRow, models.ThresholdRow})
"""What is of one project, or holds in all and is seen in each."""
_BOUND = "project"
"""Where a session remembers to which project it is bound."""
EVERYBODYS = {"everybodys": True}
"""Execution options of a query that must see all, such as one that moves what is shared."""


def restrict(session: Session, project: str | None) -> None:
    """Let all queries of a session find what is of ``project`` alone; with None, everything.

    Statements of plain tables are not narrowed: they must be about something that was found first.
    """
    if project is not None:
        session.info[_BOUND] = project
        event.listen(session, "do_orm_execute", partial(_narrow, _criteria(project)))


def revisions_seen(session: Session, names: Collection[str]) -> list[str]:
    """Those of these revisions that whoever the session is of may hear of, sorted.

    A worker has the checkouts of all projects; who is bound to one knows its own revisions.
    """
    if _BOUND not in session.info:
        return sorted(names)
    query = select(models.Revision.name).where(models.Revision.name.in_(names))
    return sorted(session.scalars(query))


def is_seen(session: Session, name: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """As `revisions_seen`, as a condition on a column that names a revision."""
    return name.in_(select(models.Revision.name)) if _BOUND in session.info else true()


def within(project: str | None, work: Callable[[Session], T]) -> Callable[[Session], T]:
    """Do ``work`` in a session that was restricted."""

    def do(session: Session) -> T:
        restrict(session, project)
        return work(session)

    return do


def _narrow(criteria: Sequence[Any], state: ORMExecuteState) -> None:
    if "everybodys" in state.execution_options:
        return
    if state.is_select or state.is_update or state.is_delete:
        state.statement = cast(Any, state.statement).options(*criteria)


@cache
def _criteria(project: str) -> Sequence[Any]:
    criteria = [
        with_loader_criteria(model, model.project == project, include_aliases=True)
        for model in OWNED
    ]
    through = [
        with_loader_criteria(
            model,
            or_(*(_of_owner(column, owner, project) for owner in owners)),
            include_aliases=True,
        )
        for model, (column, *owners) in THROUGH.items()
    ]
    # The threshold of a series that is of no project holds for that series alone.
    of_all = and_(models.ThresholdRow.project == "", models.ThresholdRow.series_id.is_(None))
    seen = or_(models.ThresholdRow.project == project, of_all)
    beside = models.AnnotationRow.project.in_(("", project))
    return (
        *criteria,
        *through,
        with_loader_criteria(models.ThresholdRow, seen, include_aliases=True),
        with_loader_criteria(models.AnnotationRow, beside, include_aliases=True),
    )


def _of_owner(column: _Column, owner: _Column, project: str) -> ColumnElement[bool]:
    table = cast(Table, owner.class_.__table__).alias(f"owner_of_{column.class_.__tablename__}")
    here = cast(Table, column.class_.__table__).c[column.key]
    owned = (table.c[owner.key] == here, table.c.project == project)
    return exists(select(literal(1)).select_from(table).where(*owned))
