"""What the first page answers: is everything all right, what changed, how fast are we."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Verdict
from service import findings
from service.dashboard import finding_data, queries
from service.dashboard.sparkline import before_after, sparkline, thinned
from service.history import best, failing
from service.history.queries import name_of, newest_series, recent_values, with_latest
from service.models import FindingRow, FindingSeries, Revision, SeriesRow
from service.schemas.best import BestCase
from service.schemas.findings import (
    REFUTED,
    AffectedSeries,
    FindingKind,
    FindingState,
    FindingSummary,
)
from service.wording import formats

YESTERDAY = timedelta(hours=24)
TREND = timedelta(days=90)
MOST_POINTS = 200
"""Newest points of a series that a small picture shows; two workers have 180 in `TREND`."""
MOST_CHANGES = 6
"""Findings that are shown as cards; the inbox has all."""
MOST_SPEEDS = 20
"""Workloads and kinds of hardware whose best case is shown; the API names all."""
MOST_FAILING = 8
AROUND = 30
"""Points on each side of a change that a card shows."""
Recent = Sequence[tuple[datetime, float]]
"""Values of a series with their places in the order of revisions."""
BAD = frozenset({FindingKind.REGRESSION, FindingKind.BAD_NODE, FindingKind.FAILURE})


@dataclass(frozen=True, slots=True)
class OverallState:
    """The state of everything in a few numbers."""

    regressions: int
    """Opened since yesterday, and not refuted."""
    older: int
    """Opened before, and still asking for attention."""
    ill: tuple[str, ...]
    """Nodes that a finding names as slow now."""
    failing: int
    """Cases whose newest measurement failed."""
    coverage: queries.DayCoverage | None
    """None before anything was submitted."""

    @property
    def tone(self) -> str:
        """``bad`` if something broke, ``mark`` if something is left to do, else ``good``."""
        if self.regressions or self.ill or self.failing:
            return "bad"
        return "mark" if self.older or (self.coverage and self.coverage.lacking) else "good"

    @property
    def clauses(self) -> list[tuple[str, str]]:
        """What to say of it, the worst first, each with the page that it leads to."""
        new, covered = self.regressions, self.coverage
        of_new = f"{formats.counted(new, 'regression') if new else 'no regression'} since yesterday"
        of_nodes = f"{formats.counted(len(self.ill), 'node') if self.ill else 'no node'} ill"
        fails = f"{formats.counted(self.failing, 'case')} fail{'s' if self.failing == 1 else ''}"
        measured = covered and (
            f"{covered.measured:,} of {covered.cases:,} cases measured"
            f"{' so far' if covered.waiting else ''}"
        )
        clauses = [
            (new > 0, of_new, "/findings"),
            (self.failing > 0, fails, "/cases?show=failing"),
            (bool(self.ill), of_nodes, "/findings"),
            (
                self.older > 0,
                f"{formats.counted(self.older, 'older regression')} open",
                "/findings",
            ),
            (measured is not None, measured or "", "/cases"),
            (not new, of_new, "/findings"),
            (not self.ill, of_nodes, "/workers"),
        ]
        return [(said, href) for holds, said, href in clauses if holds]


@dataclass(frozen=True, slots=True)
class ActiveFinding:
    """As much of a finding as it takes to count and to order it."""

    id: str
    kind: FindingKind
    state: FindingState
    opened_at: datetime
    worker: str | None

    @property
    def is_active(self) -> bool:
        """Return True if it asks for attention."""
        return self.state in findings.ACTIVE


@dataclass(frozen=True, slots=True)
class ChangeCard:
    """An open finding at a glance."""

    finding: FindingSummary
    series: AffectedSeries | None
    """The one that it was opened for; None if no series moved."""
    plot: Markup
    author: str
    """Of the first bad revision; empty if unknown."""
    title: str


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """The best case of a workload on one kind of hardware."""

    best: BestCase
    trend: Markup
    mark: finding_data.Mark | None
    """The newest open finding about it."""
    verdict: Verdict | None
    """What limits it, where that is known."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What the first page shows beside the queue."""

    condition: OverallState
    measured: bool
    """Whether anything was ever measured or imported."""
    changes: Sequence[ChangeCard]
    more: int
    """Further findings that ask for attention."""
    failing: Sequence[failing.FailingCase]
    """Those that fail longest first."""
    told: Mapping[str, str]
    """The open findings about them, by series."""
    speeds: Sequence[SpeedRow]
    more_speeds: int


def load_overview(session: Session, now: datetime, most_series: int) -> Overview:
    """Read what the first page shows: a fixed number of queries, however long the history is."""
    known = _findings(session, now)
    active = [one for one in known if one.is_active]
    shown = sorted(active, key=_urgency)[:MOST_CHANGES]
    newest = with_latest(session, newest_series(session, best.METRIC, most_series), 1)
    ranked = best.best_among(session, newest, now)
    fails = sorted(
        failing.failing_cases(session, now).values(),
        key=lambda one: (-one.revisions, one.newest.case_key, one.workers),
    )
    affected = _affected(session, [one.id for one in shown])
    drawn = {one.series.id for one in affected.values()}
    drawn |= {one.best.series_id for one in ranked[:MOST_SPEEDS]}
    points = {key: recent_values(session, key, MOST_POINTS) for key in drawn}
    return Overview(
        condition=_condition(known, len(fails), queries.coverage(session), now),
        measured=bool(newest or known or fails),
        changes=_cards(session, [one.id for one in shown], affected, points),
        more=len(active) - len(shown),
        failing=fails,
        told=findings.failing_by_series(session) if fails else {},
        speeds=_speeds(session, ranked[:MOST_SPEEDS], points, now - TREND),
        more_speeds=max(0, len(ranked) - MOST_SPEEDS),
    )


def _findings(session: Session, now: datetime) -> list[ActiveFinding]:
    """Find what asks for attention or was opened since yesterday."""
    row = FindingRow
    news = or_(row.state.in_(findings.ACTIVE), row.opened_at >= now - YESTERDAY)
    query = select(row.id, row.kind, row.state, row.opened_at, row.worker).where(news)
    return [
        ActiveFinding(key, FindingKind(kind), FindingState(state), opened_at, worker)
        for key, kind, state, opened_at, worker in session.execute(query)
    ]


def _urgency(one: ActiveFinding) -> tuple[bool, bool, float]:
    """What broke before what got better, what nobody has seen before the rest, then the newest."""
    seen = one.state is not FindingState.OPEN
    return one.kind not in BAD, seen, -one.opened_at.timestamp()


def _condition(
    known: Sequence[ActiveFinding], fails: int, coverage: queries.DayCoverage | None, now: datetime
) -> OverallState:
    worse = [one for one in known if one.kind is FindingKind.REGRESSION]
    new = [one for one in worse if one.opened_at >= now - YESTERDAY and one.state not in REFUTED]
    older = [one for one in worse if one.opened_at < now - YESTERDAY and one.is_active]
    ill = {one.worker or "" for one in known if one.kind is FindingKind.BAD_NODE and one.is_active}
    return OverallState(len(new), len(older), tuple(sorted(ill)), fails, coverage)


def _affected(session: Session, ids: Sequence[str]) -> dict[str, AffectedSeries]:
    """The series that each of these findings was opened for, by the finding's id."""
    query = (
        select(FindingSeries, SeriesRow)
        .join(SeriesRow, SeriesRow.id == FindingSeries.series_id)
        .where(FindingSeries.finding_id.in_(ids), FindingSeries.place == 0)
    )
    return {
        link.finding_id: AffectedSeries(name_of(row), **link.fields_of(AffectedSeries))
        for link, row in session.execute(query)
    }


def _cards(
    session: Session,
    ids: Sequence[str],
    affected: Mapping[str, AffectedSeries],
    points: Mapping[str, Recent],
) -> list[ChangeCard]:
    listed = findings.list_findings(session, FindingRow.id.in_(ids), limit=max(len(ids), 1)).items
    by_id = {one.id: one for one in listed}
    names = {one.first_bad for one in listed}
    query = select(Revision.name, Revision.author, Revision.title).where(Revision.name.in_(names))
    made = {name: (author, title) for name, author, title in session.execute(query)}
    return [
        ChangeCard(
            by_id[key],
            affected.get(key),
            _plot(affected.get(key), points),
            *made[by_id[key].first_bad],
        )
        for key in ids
    ]


def _plot(of: AffectedSeries | None, points: Mapping[str, Recent]) -> Markup:
    """Draw the points before a change and those since; nothing if a side has none."""
    known = points[of.series.id] if of else ()
    if of is None or not known:
        return Markup("")
    before = [value for at, value in known if at < of.first_bad_at][-AROUND:]
    after = [value for at, value in known if at >= of.first_bad_at][:AROUND]
    if not before or not after:
        return Markup("")
    unit = of.series.unit
    label = (
        f"{metric(of.series.metric).title} of {of.series.case.key}: "
        f"{formats.quantity(of.before, unit)} before, {formats.quantity(of.after, unit)} since"
    )
    return before_after(before, after, label)


def _speeds(
    session: Session, ranked: Sequence[BestCase], points: Mapping[str, Recent], since: datetime
) -> list[SpeedRow]:
    verdicts = queries.verdicts(session, (one.best.result_id for one in ranked))
    marks = finding_data.marks(session, [one.best.series_id for one in ranked])
    return [
        SpeedRow(
            one,
            _trend(one, [place for place in points[one.best.series_id] if place[0] >= since]),
            next(iter(marks.get(one.best.series_id, ())), None),
            verdicts.get(one.best.result_id),
        )
        for one in ranked
    ]


def _trend(of: BestCase, points: Recent) -> Markup:
    if not points:
        return Markup("")
    values = [value for _, value in points]
    days = (points[-1][0] - points[0][0]).days
    low, high = (formats.quantity(end, of.unit) for end in (min(values), max(values)))
    return sparkline(thinned(values), f"Throughput over {days} days: {low} to {high}")
