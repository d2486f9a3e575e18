"""Findings about cases that gave results and now fail, one for all that begin to fail together.

Two results of a case that fail in one way, with none between them that is well, are news; so are
failures on two workers. Cases belong together if one revision can have broken them all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service.analysis.attribution import Cell, Moved, Question, environment, factors
from service.analysis.statement import Statement, state
from service.findings import lifecycle
from service.findings.gather_evidence import NEIGHBOURS, cell_of
from service.findings.rules import ACTIVE
from service.history.failing import METRIC, FailureRun, GoodPoint, facts_of, good_before
from service.history.queries import COUNTED, name_of
from service.models import FindingRow, FindingState, Point, Revision, SeriesRow
from service.schemas.findings import Cause, Certainty, FindingKind

REMEMBERED = 500
"""Newest findings of this kind among which is looked for one that tells of a case already."""
MOST_FACTS = 2
"""Of an environment that changed; as for other findings."""
Place = tuple[datetime, str]
"""A revision by its place in the order of revisions, and by name."""
Pair = tuple[Mapping[str, str], Mapping[str, str]]
"""Environments of one worker: of its last good result, and of its first failure."""


@dataclass(frozen=True, slots=True)
class BrokenCase:
    """A case that fails, and where it was well before."""

    run: FailureRun
    good: tuple[GoodPoint, ...]
    """The newest first."""

    @property
    def breakage(self) -> Breakage:
        """The revisions at which it can have begun to fail."""
        first, newest = self.run.first, self.good[0]
        good = newest.revision_at, newest.revision
        bad = first.revision_at, first.revision
        return Breakage(first.project, first.status, good if good < bad else None, bad)


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

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a finding that say so."""
        at, first_bad = self.bad
        last_good = self.good and self.good[1]
        return {"last_good": last_good, "first_bad": first_bad, "first_bad_at": at}


def watch(session: Session, runs: Sequence[FailureRun], now: datetime) -> list[str]:
    """Open, extend and close findings about cases that fail; the ids of those opened."""
    of_kind = select(FindingRow).where(FindingRow.kind == FindingKind.FAILURE)
    newest = of_kind.order_by(FindingRow.id.desc()).limit(REMEMBERED)
    known = session.scalars(newest).all()
    active = [row for row in known if row.state in ACTIVE]
    by_series = {run.series_id: run for run in runs}
    for row in active:
        _follow(session, row, by_series, now)
    again = [run for run in runs if run.again]
    broken = [BrokenCase(run, tuple(good_before(session, run))) for run in again]
    news = [one for one in broken if one.good and not any(_tells(row, one) for row in known)]
    active = [row for row in active if row.state in ACTIVE]
    opened = []
    for breakage, group in _together(news):
        if joined := _joinable(session, active, breakage):
            _join(session, *joined, group, by_series, now)
        else:
            opened.append(_open(session, breakage, group, now))
    return opened


def _tells(row: FindingRow, one: BrokenCase) -> bool:
    """Return True if a finding tells of these failures already.

    A person who closed one as anything but resolved has decided until the case is well again.
    """
    run = one.run
    alike = row.project == run.first.project and row.measured["status"] == [run.first.status]
    if not alike or run.series_id not in row.measured["series"]:
        return False
    if row.closed_at is None:
        return run.series_id in row.measured["failing"]
    if row.state == FindingState.RESOLVED:
        return run.newest.received_at <= row.closed_at
    return one.good[0].received_at <= row.closed_at


def _together(news: Iterable[BrokenCase]) -> list[tuple[Breakage, list[BrokenCase]]]:
    """Put cases together that one revision can have broken in one way."""
    groups: list[tuple[Breakage, list[BrokenCase]]] = []
    for one in sorted(news, key=lambda one: (one.run.first.place, one.run.first.case_key)):
        for at, (breakage, group) in enumerate(groups):
            if both := breakage.with_(one.breakage):
                groups[at] = both, [*group, one]
                break
        else:
            groups.append((one.breakage, [one]))
    return groups


def _joinable(
    session: Session, rows: Iterable[FindingRow], new: Breakage
) -> tuple[FindingRow, Breakage] | None:
    for row in rows:
        if both := _breakage_of(session, row).with_(new):
            return row, both
    return None


def _breakage_of(session: Session, row: FindingRow) -> Breakage:
    good = session.get(Revision, row.last_good) if row.last_good else None
    (status,) = row.measured["status"]
    since = (good.ordered_at, good.name) if good else None
    return Breakage(row.project, status, since, (row.first_bad_at, row.first_bad))


def _open(session: Session, breakage: Breakage, group: Sequence[BrokenCase], now: datetime) -> str:
    failing = [one.run.series_id for one in group]
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
        comparability=group[0].run.first.comparability,
        worker=None,
        project=breakage.project,
    )


def _join(
    session: Session,
    row: FindingRow,
    breakage: Breakage,
    group: Sequence[BrokenCase],
    by_series: Mapping[str, FailureRun],
    now: datetime,
) -> None:
    """Add cases to a finding, without another alert."""
    fresh = [one.run.series_id for one in group]
    kept = [one for one in row.measured["failing"] if one not in fresh]
    all_series = dict.fromkeys([*row.measured["series"], *fresh])
    names = ", ".join(one.run.first.case_key for one in group)
    lifecycle.record(session, row.id, "join", now, detail=names)
    _say(session, row, breakage, [by_series[one] for one in (*kept, *fresh)], list(all_series))


def _follow(
    session: Session, row: FindingRow, by_series: Mapping[str, FailureRun], now: datetime
) -> None:
    """Close a finding once none of its cases fails as it says, or name those that still do."""
    failing, (status,) = row.measured["failing"], row.measured["status"]
    runs = [by_series[one] for one in failing if one in by_series]
    still = [run for run in runs if run.first.status == status]
    if not still:
        said = "fails in another way now" if runs else _since_when_well(session, row)
        lifecycle.act(session, row.id, "resolve", lifecycle.SYSTEM_ACTOR, now, detail=said)
    elif len(still) < len(failing):
        _say(session, row, _breakage_of(session, row), still, row.measured["series"])


def _since_when_well(session: Session, row: FindingRow) -> str:
    query = (
        select(Point.revision)
        .where(Point.series_id.in_(row.measured["failing"]), Point.excluded.is_(False))
        .where(Point.revision_at >= row.first_bad_at)
        .order_by(Point.revision_at.desc(), Point.measured_at.desc())
        .limit(1)
    )
    passed = session.scalars(query).first()
    return f"gives results again at {passed}" if passed else "none of its failures counts now"


def _say(
    session: Session,
    row: FindingRow,
    breakage: Breakage,
    runs: Iterable[FailureRun],
    series: Sequence[str],
) -> None:
    """Say again what a finding is, of the cases that fail now."""
    group = [BrokenCase(run, tuple(good_before(session, run))) for run in runs]
    cause, says = _account(session, breakage, group)
    measured = {"series": list(series), "failing": [one.run.series_id for one in group]}
    lifecycle.restate(
        session,
        row,
        says,
        cause=cause,
        measured=row.measured | measured,
        **breakage.columns,
    )


def _account(
    session: Session, breakage: Breakage, group: Sequence[BrokenCase]
) -> tuple[Cause, Statement]:
    """What some cases' failures are put down to, and the statement that says so."""
    cause, reasons = _cause(breakage, _pairs(session, group))
    revision = session.get_one(Revision, breakage.bad[1])
    headline = state(
        "failure",
        cells=_cells(session, breakage, group),
        status=breakage.status,
        first_bad=revision.name,
        author=revision.author,
        title=revision.title,
    )
    workers = sorted({failure.worker for one in group for failure in one.run.failures})
    says = state(
        "change",
        headline=headline,
        confirmed=False,
        workers=tuple(workers),
        cause=cause.value,
        reasons=tuple(reasons),
    )
    return cause, says


def _pairs(session: Session, group: Iterable[BrokenCase]) -> list[Pair]:
    """The environments of workers that measured a case well and then failed it."""
    found = [
        (good.environment, failure.facts)
        for one in group
        for failure in one.run.failures[:1]
        for good in [next((p for p in one.good if p.worker == failure.worker), None)]
        if good is not None
    ]
    facts = facts_of(session, {digest for digest, _ in found})
    return [(facts[digest], after) for digest, after in found]


def _cause(breakage: Breakage, pairs: Sequence[Pair]) -> tuple[Cause, Sequence[Statement]]:
    """As for changes: the environment if it changed with them all, else the code if it did."""
    names = sorted({name for pair in pairs for facts in pair for name in facts})
    changed = [name for name in names if _changed(name, pairs)]
    if changed:
        told = tuple(_fact(name, pairs) for name in changed[:MOST_FACTS])
        rest = max(0, len(changed) - MOST_FACTS)
        return Cause.ENVIRONMENT, [state("facts_changed_here", changed=told, rest=rest)]
    kept = [name for name in names if environment.telling(name) and _kept(name, pairs)]
    if breakage.good is None or not any(name.startswith("sw.") for name in kept):
        return Cause.UNKNOWN, []
    return Cause.CODE, [state("environment_unchanged", unchanged=len(kept))]


def _changed(name: str, pairs: Iterable[Pair]) -> bool:
    if name in environment.DIGESTS:
        return False
    return all(environment.changed(name, old.get(name), new.get(name)) for old, new in pairs)


def _kept(name: str, pairs: Iterable[Pair]) -> bool:
    return all(environment.same(name, old.get(name), new.get(name)) for old, new in pairs)


def _fact(name: str, pairs: Collection[Pair]) -> Statement:
    sides = (tuple(sorted({str(pair[at].get(name)) for pair in pairs})) for at in (0, 1))
    before, after = sides
    return state("fact_changed", fact=name, before=before, after=after)


def _cells(session: Session, breakage: Breakage, group: Sequence[BrokenCase]) -> Statement:
    """Name the cases that fail as briefly as is true, and count those that do not."""
    ids = [one.run.series_id for one in group]
    rows = session.scalars(select(SeriesRow).where(SeriesRow.id.in_(ids)).order_by(SeriesRow.id))
    first, *others = (cell_of(name_of(row)) for row in rows)
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
        .limit(NEIGHBOURS)
    )
    return (cell_of(name_of(row)) for row in session.scalars(query))
