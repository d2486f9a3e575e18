"""The data of the inbox, of a finding's page and of marks on other pages. Nothing changes a row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from urllib.parse import urlencode

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.orm import Session, undefer

from benchmarks.contracts import Direction
from benchmarks.diagnosis import kernel_changes
from service import comparisons, findings, models
from service.analysis.detection.windows import SAME
from service.dashboard import cell_dots, figures, kernels
from service.database.paging import Page
from service.findings import bad_nodes, confirm
from service.history.queries import COUNTED, load_series, name_of, since_before, stored_of
from service.history.revisions import IN_HISTORY, in_history_of
from service.history.slow_workers import by_ill, slow_periods
from service.schemas import findings as schemas
from service.schemas.comparisons import ComparisonView
from service.schemas.gate import MetricFinding
from service.schemas.series import Series, SeriesName, SeriesPoint
from service.wording import formats

LATELY = timedelta(hours=24)
"""What counts as opened lately: a night and the day around it."""
REMEMBERED = timedelta(days=7)
"""For how long it is shown that something suspicious came to nothing."""
MOST_ACTIVE = 200
MOST_CONFIRMATIONS = 50
PER_PAGE = 50
FOR_NOTHING = (models.ConfirmationState.NOT_REPRODUCED, models.ConfirmationState.UNRESOLVED)
AROUND = 60
"""Points before a change that are read: some are drawn, and one may have a profile."""
SLOW_WORKER = "its worker was slow"
PROFILED_WITHIN = 3
"""Points on each side of a change among which a profile is looked for."""
MOST_REVISIONS = 50
"""Revisions of a range that its finding lists."""
MOST_OTHERS = 500
"""Cases that a finding is not about, of which it draws a dot each."""
_DRAWN = (*COUNTED, models.Point.value > 0)
"""Points between which a change is drawn."""
MOST_WITH_PAIRS = 6
"""Confirmations whose pairs a page shows; the others lead to theirs."""
NODE_RESULTS = 20
"""Newest results of a slow node that its page lists."""


def grouped(
    attribution: schemas.AttributionView | None,
) -> dict[schemas.State, list[schemas.EvidenceView]]:
    """The evidence by what it says, what changed first."""
    evidence = attribution.evidence if attribution else ()
    order = (schemas.State.CHANGED, schemas.State.UNCLEAR, schemas.State.UNCHANGED)
    groups = {state: [entry for entry in evidence if entry.state is state] for state in order}
    return {state: entries for state, entries in groups.items() if entries}


def compare_link(finding: schemas.FindingSummary, metric: str = "") -> str | None:
    """The address of the page that holds both revisions side by side."""
    if finding.last_good is None:
        return None
    choices = {"baseline": finding.last_good, "contender": finding.first_bad}
    return "/compare?" + urlencode(choices | ({"metric": metric} if metric else {}))


def around(session: Session, affected: schemas.AffectedSeries) -> Series:
    """A series from some points before its change on; a slow worker's points are set apart."""
    series_id, at = affected.series.id, affected.first_bad_at
    series = load_series(session, series_id, *since_before(session, series_id, at, AROUND))
    ill = slow_periods(session)
    points = (
        replace(one, disturbed=SLOW_WORKER) if one.counts and by_ill(one, ill) else one
        for one in series.points
    )
    return replace(series, points=tuple(points))


def profiled_beside(
    session: Session, series: Series, first_bad_result: str
) -> tuple[kernels.ProfiledRun, kernels.ProfiledRun] | None:
    """Find the nearest runs before a change and from it on whose kernels are known.

    None if a side has none within `PROFILED_WITHIN` points.
    """
    ids = [point.result_id for point in series.points if point.counts]
    if first_bad_result not in ids:
        return None
    at = ids.index(first_bad_result)
    before = _profiled(session, ids[max(0, at - PROFILED_WITHIN) : at][::-1])
    after = _profiled(session, ids[at : at + PROFILED_WITHIN]) if before else None
    return (before, after) if before and after else None


def _profiled(session: Session, result_ids: Sequence[str]) -> kernels.ProfiledRun | None:
    of = models.ResultRow
    rows = session.scalars(select(of).where(of.id.in_(result_ids)).options(undefer(of.document)))
    for row in sorted(rows, key=lambda row: result_ids.index(row.id)):
        stored = stored_of(row)
        if not kernel_changes.missing(stored.result.profile):  # a case's first process has it
            return kernels.profiled_run(session, stored)
    return None


def with_end(
    analysed: figures.Analysed, series: Series, affected: schemas.AffectedSeries
) -> figures.Analysed:
    """Add the end of a change that was over before it became a level of its own."""
    chosen = next(step for step in analysed.steps if step.chosen)
    if affected.ended_at is None:
        return analysed
    end = figures.Step(
        result_id="",
        at=affected.ended_at,
        effect=affected.before / affected.after - 1.0 if affected.after else 0.0,
        improvement=not chosen.improvement,
    )
    at = figures.place_of(series.points, end)
    others = (figures.place_of(series.points, step) for step in analysed.steps if not step.chosen)
    if any(abs(other - at) <= SAME for other in others):
        return analysed  # the history shows it
    steps = sorted((*analysed.steps, end), key=lambda step: step.at)
    return replace(analysed, steps=tuple(steps))


def confirmations_of(
    session: Session, finding: schemas.FindingView
) -> list[confirm.ConfirmationView]:
    """List how a finding's changes, and their place in its series, were measured again."""
    row = session.get_one(models.FindingRow, finding.summary.id)
    results = [result_id for side in row.measured.values() for result_id in side]
    changes = select(models.FindingSeries.change_id).where(
        models.FindingSeries.finding_id == row.id
    )
    place = models.ConfirmationRow.first_bad == finding.summary.first_bad
    moved = models.ConfirmationRow.first_bad_result.in_(results)  # where it was before it moved
    here: ColumnElement[bool] = models.ConfirmationRow.series_id.in_(
        [affected.series.id for affected in finding.series]
    )
    if finding.summary.worker is not None:
        at_fault = models.ConfirmationRow.state == models.ConfirmationState.BAD_NODE
        here = here | (at_fault & (models.ConfirmationRow.worker == finding.summary.worker))
    about = models.ConfirmationRow.change_id.in_(changes) | ((place | moved) & here)
    page = confirm.list_confirmations(session, about)
    return list(page.items[::-1])


def results_of(
    session: Session, worker: str, comparability: dict[str, str]
) -> list[tuple[models.Point, SeriesName, float | None]]:
    """The newest results of a node, each with its series.

    The number says how much slower it was than the others in that series, as a share; None if
    nobody else has measured it.
    """
    slower = bad_nodes.against_others(session, worker, comparability)
    newest = (
        select(models.Point, models.SeriesRow)
        .join(models.SeriesRow, models.SeriesRow.id == models.Point.series_id)
        .where(models.Point.worker == worker, models.SeriesRow.metric == bad_nodes.METRIC)
        .order_by(models.Point.revision_at.desc(), models.Point.measured_at.desc())
        .limit(NODE_RESULTS)
    )
    return [
        (point, name_of(series), slower.get((series.id, point.revision)))
        for point, series in session.execute(newest)
    ]


def two_cases(session: Session, finding_id: str) -> list[tuple[Series, SeriesPoint | None]]:
    """The new best case and the former one, each with its newest point; empty for other kinds."""
    row = session.get_one(models.FindingRow, finding_id)
    if row.kind != schemas.FindingKind.OVERTAKEN:
        return []
    histories = [load_series(session, series_id) for series_id in row.measured["series"]]
    counting = ([point for point in one.points if point.counts] for one in histories)
    return [
        (one, points[-1] if points else None)
        for one, points in zip(histories, counting, strict=True)
    ]


def cells_of(session: Session, finding: schemas.FindingView) -> cell_dots.CellRows | None:
    """Draw how far each cell moved, and the others at the same two revisions; None for nodes."""
    last_good = _last_good(session, finding.summary)
    first_bad = session.get(models.Revision, finding.summary.first_bad)
    if not finding.series or last_good is None or first_bad is None:
        return None
    metric = finding.series[0].series.metric
    moved = [one for one in finding.series if one.series.metric == metric]
    hardware = {formats.hardware(one.series.comparability) for one in moved}
    others = _others(session, finding.summary, (last_good, first_bad), metric, hardware)
    ends = (last_good.name, first_bad.name)
    return cell_dots.cell_rows(moved, _changes_between(session, ends, others))


def _last_good(session: Session, finding: schemas.FindingSummary) -> models.Revision | None:
    return session.get(models.Revision, finding.last_good) if finding.last_good else None


def _others(
    session: Session,
    finding: schemas.FindingSummary,
    ends: Collection[models.Revision],
    metric: str,
    hardware: Collection[str],
) -> list[str]:
    """Series of a finding's project with points at both ends that no finding there is about."""
    link, point, series = models.FindingSeries, models.Point, models.SeriesRow
    there = and_(
        link.first_bad_at > min(end.ordered_at for end in ends),
        link.first_bad_at <= finding.first_bad_at,
    )
    about = select(link.series_id).where(or_(link.finding_id == finding.id, there))
    measured = (
        exists().where(
            point.series_id == series.id,
            point.revision_at == end.ordered_at,  # by its place, so that its key finds it
            point.revision == end.name,
            *_DRAWN,
        )
        for end in ends
    )
    query = (
        select(series.id, series.comparability)
        .where(series.metric == metric, series.project == finding.project, *measured)
        .where(series.id.not_in(about))
        .order_by(series.id)
    )
    here = (
        one for one, comparability in session.execute(query)
        if formats.hardware(comparability) in hardware
    )  # fmt: skip
    return list(islice(here, MOST_OTHERS))


def _changes_between(session: Session, ends: tuple[str, str], series: Sequence[str]) -> list[float]:
    """Moves of some series between two revisions, by their newest points there."""
    point = models.Point
    query = (
        select(point.series_id, point.revision, point.value)
        .where(point.series_id.in_(series), point.revision.in_(ends), *_DRAWN)
        .order_by(point.measured_at)
    )
    seen: dict[str, dict[str, float]] = {}
    for series_id, revision, value in session.execute(query):
        seen.setdefault(series_id, {})[revision] = value
    good, bad = ends
    return [at[bad] / at[good] - 1.0 for at in seen.values()]


def revisions_between(
    session: Session, finding: schemas.FindingSummary
) -> tuple[list[models.Revision], int]:
    """List the newest revisions after the last good one up to the first bad one.

    They are of the history of the finding's project; a node's is that of all. The number says how
    many earlier ones are left out.
    """
    last_good = _last_good(session, finding)
    if last_good is None:
        return [], 0
    of = models.Revision
    known = IN_HISTORY if finding.worker else in_history_of(finding.project)
    between = known, of.ordered_at > last_good.ordered_at, of.ordered_at <= finding.first_bad_at
    newest = (of.ordered_at.desc(), (of.name == finding.first_bad).desc(), of.name.desc())
    query = select(of, func.count().over()).where(*between).order_by(*newest)
    rows = session.execute(query.limit(MOST_REVISIONS)).all()
    return [row for row, _ in rows], rows[0][1] - len(rows) if rows else 0


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A confirmation with what the pairs of its comparisons say."""

    confirmation: confirm.ConfirmationView
    pairs: tuple[tuple[str, int, MetricFinding | None], ...]
    """Id of each comparison, its pairs, and the first metric over them."""


def with_pairs(
    session: Session, confirmations: Sequence[confirm.ConfirmationView], now: datetime
) -> list[Confirmed]:
    """Read what the pairs of the newest confirmations say."""
    return [
        Confirmed(
            one,
            tuple(
                _pairs_of(comparisons.load_comparison(session, comparison, now))
                for comparison in one.comparisons
            )
            if at < MOST_WITH_PAIRS
            else (),
        )
        for at, one in enumerate(confirmations)
    ]


def _pairs_of(one: ComparisonView) -> tuple[str, int, MetricFinding | None]:
    case = next(iter(one.so_far.cases), None)
    metric = case.metrics[0] if case and case.metrics else None
    return one.id, case.pairs if case else 0, metric


@dataclass(frozen=True, slots=True)
class InboxReport:
    """The number of findings opened lately, and the number of them expected to be false."""

    opened: int
    expected_false: float


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something suspicious that is or was measured again, with its series."""

    confirmation: confirm.ConfirmationView
    series: SeriesName

    @property
    def effect(self) -> float:
        """As a share of what was expected, signed as measured."""
        return self.confirmation.measured / self.confirmation.expected - 1.0

    @property
    def improvement(self) -> bool:
        """Return True if the suspect looks like an improvement."""
        return (self.effect > 0) == (self.series.direction is Direction.HIGHER)


def report(session: Session, now: datetime) -> InboxReport:
    """Count the findings opened lately, and how many of them are expected to be false."""
    since = now - LATELY
    opened = (
        select(func.count())
        .select_from(models.FindingRow)
        .where(models.FindingRow.opened_at >= since)
    )
    expected = findings.expected_false_since(session, since)
    return InboxReport(session.execute(opened).scalar_one(), expected)


def active(session: Session) -> list[schemas.FindingSummary]:
    """List findings that ask for attention: open ones before acknowledged, then newest first."""
    page = findings.list_findings(
        session, models.FindingRow.state.in_(findings.ACTIVE), limit=MOST_ACTIVE
    ).items
    return sorted(page, key=lambda finding: finding.state is not models.FindingState.OPEN)


def closed(session: Session, cursor: str | None) -> Page[schemas.FindingSummary]:
    """Return a page of the findings that are over, the newest first."""
    over = models.FindingRow.state.not_in(findings.ACTIVE)
    return findings.list_findings(session, over, after=cursor, limit=PER_PAGE)


def running(session: Session) -> list[Suspect]:
    """List the suspects that are being measured again."""
    state = models.ConfirmationRow.state == models.ConfirmationState.RUNNING
    page = confirm.list_confirmations(session, state, limit=MOST_CONFIRMATIONS)
    return _suspects(session, page.items)


def for_nothing(session: Session, now: datetime) -> list[Suspect]:
    """List the recent suspects that were measured again and came to nothing."""
    page = confirm.list_confirmations(
        session,
        models.ConfirmationRow.state.in_(FOR_NOTHING),
        models.ConfirmationRow.decided_at >= now - REMEMBERED,
        limit=MOST_CONFIRMATIONS,
    )
    return _suspects(session, page.items)


def _suspects(session: Session, views: Iterable[confirm.ConfirmationView]) -> list[Suspect]:
    return [
        Suspect(view, name_of(session.get_one(models.SeriesRow, view.series_id))) for view in views
    ]


def longest_history(session: Session) -> int:
    """Points of the longest series that was analysed: how far it is to the first finding."""
    return session.scalar(select(func.max(models.AnalysisRow.points))) or 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding that asks for attention, as other pages point to it."""

    finding: str
    kind: schemas.FindingKind
    effect: float
    """How far the series moved, as a share of the level before, signed as measured."""
    since: datetime
    """The first place in the order of revisions that it is about."""


def begun_at(session: Session, result_ids: Collection[str]) -> tuple[schemas.FindingSummary, ...]:
    """List the findings, of any state, whose change begins with one of these results."""
    link = models.FindingSeries
    first = select(link.finding_id).where(link.first_bad_result.in_(result_ids))
    return findings.list_findings(session, models.FindingRow.id.in_(first)).items


def marks(session: Session, series: Collection[str] | None = None) -> dict[str, list[Mark]]:
    """The active findings about each series, or about some, the newest first."""
    link, row = models.FindingSeries, models.FindingRow
    query = (
        select(link.series_id, row.id, row.kind, link.effect, link.first_bad_at)
        .join(row, row.id == link.finding_id)
        .where(row.state.in_(findings.ACTIVE), link.ended == "")
        .order_by(row.id.desc())
    )
    if series is not None:
        query = query.where(link.series_id.in_(series))
    found: dict[str, list[Mark]] = {}
    for series_id, finding, kind, effect, since in session.execute(query):
        mark = Mark(finding, schemas.FindingKind(kind), effect, since)
        found.setdefault(series_id, []).append(mark)
    return found
