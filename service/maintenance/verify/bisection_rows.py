"""Checks each bisection: its request, its probes, and that its outcome is what they say."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from service import models
from service.comparisons.bisection.subject import AskedProbe, BisectionDecision, Subject
from service.maintenance.verify.agreement import ROWS, names_moment
from service.maintenance.verify.values import Breach
from service.schemas.bisections import BisectionRequest, BisectionState
from service.schemas.comparisons import ComparisonState


def every_bisection(session: Session) -> Iterator[Breach]:
    """11: what is wrong with each bisection, the oldest first."""
    own = models.BisectionRow
    for name in session.scalars(select(own.id).order_by(own.id)).all():
        row = session.get_one(own, name)
        for sentence in _faults(session, row):
            yield Breach(ROWS, f"bisection {name}", sentence)
        session.expunge_all()


def _faults(session: Session, row: models.BisectionRow) -> Iterator[str]:
    if not names_moment(row.id, row.created_at):
        yield f"It was not made at {row.created_at}, as its name tells."
    try:
        request = BisectionRequest.model_validate(row.request)
        subject = Subject.model_validate(row.subject)
        asked = [AskedProbe.model_validate(one) for one in row.probes]
    except (ValidationError, TypeError):
        yield "Its request, its subject or its probes cannot be read."
        return
    if (request.finding, request.project or "") != (row.finding_id, row.project):
        yield "It is of another finding or project than its request."
    if request.finding is None and subject.change is not None:
        yield "It explains a change, and no finding tells one."
    yield from _decided(row, asked)
    yield from _probed(session, row, request, asked)


def _decided(row: models.BisectionRow, asked: list[AskedProbe]) -> Iterator[str]:
    """Yield each way in which state and outcome disagree."""
    if (row.decided_at is not None) != (row.state != BisectionState.RUNNING):
        yield f"It is {row.state}, and its time of ending says otherwise."
    if (row.decision is not None) != (row.state == BisectionState.DONE):
        yield f"It is {row.state}, and its outcome says otherwise."
    if row.decision is None:
        return
    try:
        decision = BisectionDecision.model_validate(row.decision)
    except ValidationError:
        yield "Its outcome cannot be read."
        return
    if decision.processes > 2 * len(asked):
        yield f"It cost {decision.processes} processes, and has {len(asked)} probes."


def _probed(
    session: Session, row: models.BisectionRow, request: BisectionRequest, asked: list[AskedProbe]
) -> Iterator[str]:
    """Yield each probe that is none of its comparisons, and each comparison that is none of it."""
    if row.probed != len(asked):
        yield f"It asked {row.probed} probes, and {len(asked)} are stored."
    if asked and not row.listed:
        yield "It has probes, and its commits were not listed."
    own = models.ComparisonRow
    query = select(own).where(own.source == f"{models.PROBES}{row.id}").order_by(own.id)
    made = {one.id: one for one in session.scalars(query)}
    names = [commit.revision for commit in request.commits]
    for number, probe in enumerate(asked):
        compared = made.pop(probe.comparison or "", None)
        if compared is None:
            if probe.comparison is not None:
                yield f"The comparison of its probe {number}, {probe.comparison}, is gone."
            continue
        places = names[probe.beside], names[probe.commit]
        if (compared.baseline, compared.contender) != places:
            yield f"Its probe {number} is of other commits than its comparison {compared.id}."
        if number < len(asked) - 1 and compared.state == ComparisonState.RUNNING:
            yield f"Its probe {number} was followed by another one, and still runs."
    for name in made:
        yield f"The comparison {name} was made for it, and is none of its probes."
