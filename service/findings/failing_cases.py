"""Findings about cases that gave results and now fail, one for all that begin to fail together.

Two results of a case that fail in one way, with none between them that is well, are news; so are
failures on two workers. Cases belong together if one revision can have broken them all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service.analysis.attribution import Cell, Moved, Question, environment, factors
from service.analysis.statement import Statement
from service.findings import gather_evidence, lifecycle
from service.findings.rules import ACTIVE
from service.history.failing import (
    METRIC,
    REMEMBERED,
    CaseFailure,
    FailureRun,
    GoodPoint,
    failures_since,
)
from service.history.queries import COUNTED, name_of
from service.history.ranking import case_id
from service.models import FindingRow, FindingState, Point, ResultRow, Revision, SeriesRow
from service.schemas.findings import Cause, Certainty, FindingKind

REPORTED = 500
"""Newest findings of this kind among which is looked for one that tells of a case already."""
MOST_FACTS = 2
"""Changed facts of an environment that a sentence names, as for other findings."""
Place = tuple[datetime, str]
"""A revision by its place in the order of revisions, and by name."""


@dataclass(frozen=True, slots=True)
class Breakage:
    """The revisions at which some cases can have begun to fail in one way."""

    project: str
    status: str
    good: Place | None
    """The last good revision; None if the first bad one was well once."""
    bad: Place
    """The first bad one."""

    def with_(self, other: Breakage) -> Breakage | None:
        """Give the revisions that both leave; None if no revision can have broken both."""
        if (self.project, self.status) != (other.project, other.status):
            return None
        if self.good is None or other.good is None:
            return self if self.bad == other.bad else None
        good, bad = max(self.good, other.good), min(self.bad, other.bad)
        return replace(self, good=good, bad=bad) if good < bad else None

    @classmethod
    def of(cls, run: FailureRun) -> Breakage:
        """The revisions at which one case can have begun to fail."""
        first, newest = run.first, run.good[0]
        good, bad = (newest.revision_at, newest.revision), (first.revision_at, first.revision)
        return cls(first.project, first.status, good if good < bad else None, bad)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a finding that say so."""
        at, first_bad = self.bad
        last_good = self.good and self.good[1]
        return {"last_good": last_good, "first_bad": first_bad, "first_bad_at": at}


def watch(session: Session, runs: Sequence[FailureRun], now: datetime) -> list[str]:
    """Open, extend and close findings about cases that fail; the ids of those opened."""
    of_kind = select(FindingRow).where(FindingRow.kind == FindingKind.FAILURE)
    newest = of_kind.order_by(FindingRow.id.desc()).limit(REPORTED)
    known = session.scalars(newest).all()
    active = [row for row in known if row.state in ACTIVE]
    by_series = {run.series_id: run for run in runs}
    for row in active:
        _follow(session, row, by_series, now)
    news = [run for run in runs if run.again and not any(_tells(row, run) for row in known)]
    opened = []
    for breakage, group in _together(news):
        for row in active:
            both = _breakage_of(session, row).with_(breakage)
            if both and row.state in ACTIVE:
                _join(session, row, both, group, by_series, now)
                break
        else:
            opened.append(_open(session, breakage, group, now))
    return opened


def _tells(row: FindingRow, run: FailureRun) -> bool:
    """Return True if a finding tells of these failures already.

    A person who closed one as anything but resolved has decided until the case is well again.
    """
    alike = row.project == run.first.project and row.measured["status"] == [run.first.status]
    if not alike or run.series_id not in row.measured["series"]:
        return False
    if row.closed_at is None:
        return run.series_id in row.measured["failing"]
    if row.state == FindingState.RESOLVED:
        return run.newest.received_at <= row.closed_at
    good = run.good[0]
    return good.revision_at < row.first_bad_at or good.received_at <= row.closed_at


def _together(news: Iterable[FailureRun]) -> list[tuple[Breakage, list[FailureRun]]]:
    """Put cases together that one revision can have broken in one way."""
    groups: list[tuple[Breakage, list[FailureRun]]] = []
    for run in sorted(news, key=lambda run: (run.first.place, run.first.case_key)):
        own = Breakage.of(run)
        for at, (breakage, group) in enumerate(groups):
            if both := breakage.with_(own):
                groups[at] = both, [*group, run]
                break
        else:
            groups.append((own, [run]))
    return groups


def _breakage_of(session: Session, row: FindingRow) -> Breakage:
    good = session.get(Revision, row.last_good) if row.last_good else None
    (status,) = row.measured["status"]
    since = (good.ordered_at, good.name) if good else None
    return Breakage(row.project, status, since, (row.first_bad_at, row.first_bad))


def _open(session: Session, breakage: Breakage, group: Sequence[FailureRun], now: datetime) -> str:
    failing = [run.series_id for run in group]
    cause, says = _account(session, breakage, group)
    return lifecycle.open_finding(
        session,
        now,
        says,
        kind=FindingKind.FAILURE,
        cause=cause,
        certainty=Certainty.STANDING,
        attribution=None,
        measured={"series": failing, "failing": failing, "status": [breakage.status]},
        share=None,
        **breakage.columns,
        comparability=group[0].first.comparability,
        worker=None,
        project=breakage.project,
    )


def _join(
    session: Session,
    row: FindingRow,
    breakage: Breakage,
    group: Sequence[FailureRun],
    by_series: Mapping[str, FailureRun],
    now: datetime,
) -> None:
    """Add cases to a finding, without another alert."""
    names = ", ".join(run.first.case_key for run in group)
    lifecycle.record(session, row.id, "join", now, detail=names)
    failing = row.measured["failing"]
    known = [*_alike(row, by_series, failing), *group]
    _say(session, row, breakage, known, [*failing, *(run.series_id for run in group)])


def _follow(
    session: Session, row: FindingRow, by_series: Mapping[str, FailureRun], now: datetime
) -> None:
    """Close a finding once none of its cases fails as it says, or name those that still do."""
    failing = row.measured["failing"]
    ends = {one: _end_of(session, row, one, by_series.get(one)) for one in failing}
    still = [one for one in failing if not ends[one]]
    if not still:
        said = ends[failing[0]]
        lifecycle.act(session, row.id, "resolve", lifecycle.SYSTEM_ACTOR, now, detail=said)
    elif len(still) < len(failing) and (group := _alike(row, by_series, still)):
        _say(session, row, _breakage_of(session, row), group, still)


def _alike(
    row: FindingRow, by_series: Mapping[str, FailureRun], series: Iterable[str]
) -> list[FailureRun]:
    """Give the runs of some cases that fail as a finding says, without one that strayed once."""
    runs = (by_series[one] for one in series if one in by_series)
    return [run for run in runs if [run.first.status] == row.measured["status"]]


def _end_of(session: Session, row: FindingRow, series_id: str, run: FailureRun | None) -> str:
    """Say why a case does not fail any more as a finding says; empty while it does.

    One that is not measured any longer fails still: nothing says otherwise.
    """
    if run is not None:
        other = [run.first.status] != row.measured["status"] and run.again
        return "fails in another way now" if other else ""
    later = or_(Point.revision_at > row.first_bad_at, Point.measured_at > row.opened_at)
    query = (
        select(Point.revision)
        .where(Point.series_id == series_id, Point.excluded.is_(False))
        .where(Point.revision_at >= row.first_bad_at, later)
        .order_by(Point.revision_at.desc(), Point.measured_at.desc())
        .limit(1)
    )
    if passed := session.scalars(query).first():
        return f"gives results again at {passed}"
    return "" if _counts(session, row, series_id) else "none of its failures counts now"


def _counts(session: Session, row: FindingRow, series_id: str) -> bool:
    """Return True if a failure of a case that a finding rests on still counts."""
    series = session.get_one(SeriesRow, series_id)
    which = ResultRow.case_key == series.case_key, ResultRow.status.in_(row.measured["status"])
    failures = failures_since(session, row.opened_at - REMEMBERED, *which)
    case = case_id(series.case_key, series.project, series.comparability)
    return any(one.case == case and one.revision_at >= row.first_bad_at for one in failures)


def _say(
    session: Session,
    row: FindingRow,
    breakage: Breakage,
    group: Sequence[FailureRun],
    failing: Sequence[str],
) -> None:
    """Say again what a finding is, by what is known of the cases that are ``failing`` now."""
    cause, says = _account(session, breakage, group)
    series = list(dict.fromkeys([*row.measured["series"], *failing]))
    measured = row.measured | {"series": series, "failing": list(failing)}
    lifecycle.restate(session, row, says, cause=cause, measured=measured, **breakage.columns)


def _account(
    session: Session, breakage: Breakage, group: Sequence[FailureRun]
) -> tuple[Cause, Statement]:
    """What some cases' failures are put down to, and the statement that says so."""
    before = [point for run in group for point in run.good]
    after = [failure for run in group for failure in run.failures]
    cause, reasons = _cause(breakage, before, after)
    revision = session.get_one(Revision, breakage.bad[1])
    headline = Statement.of(
        "failure",
        cells=_cells(session, breakage, group),
        status=breakage.status,
        first_bad=revision.name,
        author=revision.author,
        title=revision.title,
    )
    workers = tuple(sorted({failure.worker for failure in after}))
    known = {"confirmed": False, "workers": workers, "cause": cause.value, "reasons": reasons}
    return cause, Statement.of("change", headline=headline, **known)


def _cause(
    breakage: Breakage, before: Sequence[GoodPoint], after: Sequence[CaseFailure]
) -> tuple[Cause, tuple[Statement, ...]]:
    """As for changes: the environment if it changed, or the code if a machine measured both."""
    known = environment.evidence(before, after)
    changed = [one.says for one in known if one.carries]
    if changed:
        told, rest = tuple(changed[:MOST_FACTS]), max(0, len(changed) - MOST_FACTS)
        return Cause.ENVIRONMENT, (Statement.of("facts_changed_here", changed=told, rest=rest),)
    same_machine = {one.worker for one in before} & {one.worker for one in after}
    if known and breakage.good is not None and same_machine:
        return Cause.CODE, (known[0].says,)
    return Cause.UNKNOWN, ()


def _cells(session: Session, breakage: Breakage, group: Sequence[FailureRun]) -> Statement:
    """Name the cases that fail as briefly as is true, and count those that do not."""
    ids = [run.series_id for run in group]
    rows = session.scalars(select(SeriesRow).where(SeriesRow.id.in_(ids)).order_by(SeriesRow.id))
    first, *others = (gather_evidence.cell_of(name_of(row)) for row in rows)
    question = Question(
        case=first.case,
        hardware=first.hardware,
        metric=METRIC,
        unit="",
        direction=Direction.HIGHER,
        effect=-1.0,
        effect_low=None,
        effect_high=None,
        last_good=breakage.good[1] if breakage.good else "",
        first_bad=breakage.bad[1],
        before=(),
        after=(),
        moved=tuple(Moved(cell, -1.0) for cell in others),
        unmoved=tuple(_well(session, breakage, ids)),
    )
    return factors.where(question, factors.rule(question))


def _well(session: Session, breakage: Breakage, failing: Collection[str]) -> Iterator[Cell]:
    """Cases of the project that gave a result at the first bad revision or later."""
    since = select(Point.series_id).where(Point.revision_at >= breakage.bad[0], *COUNTED)
    query = (
        select(SeriesRow)
        .where(SeriesRow.metric == METRIC, SeriesRow.project == breakage.project)
        .where(SeriesRow.source == "", SeriesRow.id.not_in(failing), SeriesRow.id.in_(since))
        .order_by(SeriesRow.id)
        .limit(gather_evidence.NEIGHBOURS)
    )
    return (gather_evidence.cell_of(name_of(row)) for row in session.scalars(query))
