"""The changes that a finding is about, and what they are put down to by now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from service import models
from service.analysis.attribution import Attribution, Cause, attribute
from service.analysis.detection.change import ChangePoint
from service.analysis.statement import state
from service.findings import lifecycle
from service.findings.gather_evidence import question_of
from service.findings.types import Candidate, Remeasured
from service.history import revisions
from service.history.analysis import Histories
from service.history.queries import name_of
from service.history.series_history import PlacedChange
from service.schemas.findings import Certainty, FindingKind, FindingSummary


def say_again(histories: Histories, row: models.FindingRow, whole: Sequence[Candidate]) -> None:
    """Put into words what a finding is, now that it is about the changes in ``whole``."""
    measured = Remeasured(*(tuple(row.measured.get(side, ())) for side in ("before", "after")))
    attribution_now = attribute(question_of(histories, whole, measured))
    if row.measured.get("not_reproduced"):
        attribution_now = without_cause(attribution_now)
    lifecycle.revise(histories.session, row, attribution_now)


def without_cause(attribution: Attribution) -> Attribution:
    """The history says so, and measuring again does not: then the revision is not to blame."""
    facts = {**attribution.says.facts, "reasons": (state("not_reproduced"),)}
    return replace(attribution, cause=Cause.UNKNOWN, says=replace(attribution.says, facts=facts))


def members(session: Session, row: models.FindingRow) -> list[Candidate]:
    """The changes that a finding is about, the one that it was opened for first."""
    query = (
        select(models.FindingSeries, models.SeriesRow)
        .join(models.SeriesRow, models.SeriesRow.id == models.FindingSeries.series_id)
        .where(models.FindingSeries.finding_id == row.id)
        .order_by(models.FindingSeries.place)
    )
    return [_member(session, row, link, series) for link, series in session.execute(query)]


def _member(
    session: Session, row: models.FindingRow, link: models.FindingSeries, series: models.SeriesRow
) -> Candidate:
    return Candidate(
        series=name_of(series),
        placed=as_reported(link, row),
        rank=revisions.rank(session, link.first_bad_at, series.project),
        doubt=link.doubt,
        certainty=Certainty(row.certainty),
    )


def as_reported(
    link: models.FindingSeries, finding: models.FindingRow | FindingSummary
) -> PlacedChange:
    """Give the change of a series as its finding reports it, whatever the history says by now."""
    change = ChangePoint(
        index=0,
        effect=link.effect,
        effect_low=link.effect_low,
        effect_high=link.effect_high,
        before=link.before,
        after=link.after,
        improvement=finding.kind == FindingKind.IMPROVEMENT,
        confidence=1.0 - link.doubt,
        evidence=0.0,
    )
    return PlacedChange(
        change=change,
        last_good=finding.last_good or "",
        first_bad=finding.first_bad,
        first_bad_at=link.first_bad_at,
        first_bad_result=link.first_bad_result,
        id=link.change_id,
    )


def figures_of(change: ChangePoint) -> dict[str, float]:
    """Give what a finding reports of a change in one series: columns of its row."""
    reported = ("effect", "effect_low", "effect_high", "before", "after")
    return {name: getattr(change, name) for name in reported} | {"doubt": 1.0 - change.confidence}
