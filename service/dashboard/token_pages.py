"""The page of tokens, and of the projects that they and submissions are bound to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import HTMLResponse
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from service import findings, models
from service.api.dependencies import Now, Reading
from service.auth import token_store
from service.auth.permissions import Permission
from service.dashboard import rendering
from service.database.session import pairs
from service.schemas.access import TokenKind, TokenView

router = rendering.page_router(rendering.COUNTED)

MOST_ENDED = 50
"""Tokens that ended are shown, the newest."""
_DAY_S = 86_400
LASTING: Mapping[str, int | None] = {
    "90 days": 90 * _DAY_S,
    "7 days": 7 * _DAY_S,
    "30 days": 30 * _DAY_S,
    "a year": 365 * _DAY_S,
    "until it is revoked": None,
}
"""Seconds that the form offers; None: without end."""
KINDS: Mapping[TokenKind, str] = {
    TokenKind.READ: "sees pages, results and findings",
    TokenKind.SUBMIT: "also submits and cancels work",
    TokenKind.WORKER: "takes jobs, as the worker of its name",
    TokenKind.ADMIN: "may do everything",
}


@router.get("/tokens")
@Permission.ADMIN.required
def list_tokens(request: Request, session: Reading, now: Now) -> HTMLResponse:
    """Show the tokens, and what each project has."""
    every = token_store.every(session, now)
    live = [one for one in every if one.state == "live"]
    ended = [one for one in every if one.state != "live"]
    return rendering.render(
        request,
        "tokens.html",
        now=now,
        tokens=live + ended[:MOST_ENDED],
        left_out=len(ended[MOST_ENDED:]),
        names={one.id: one.name for one in every},
        projects=_projects(session, live),
        kinds=KINDS,
        lasting=LASTING,
    )


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """What a project has."""

    name: str
    series: int
    findings: int
    """Those that ask for attention."""
    tokens: int
    """Those that are neither revoked nor expired."""


def _projects(session: Session, live: Sequence[TokenView]) -> list[ProjectCounts]:
    """The projects that something was submitted to, or that a token is bound to."""
    tokens = Counter(one.project for one in live if one.project)
    series = _count(session, models.SeriesRow)
    active = _count(session, models.FindingRow, models.FindingRow.state.in_(findings.ACTIVE))
    submitted = session.scalars(select(models.Submission.project).distinct()).all()
    names = sorted({*tokens, *series, *active, *submitted} - {""})
    return [ProjectCounts(one, series[one], active[one], tokens[one]) for one in names]


def _count(
    session: Session, model: type[models.ProjectOwned], *which: ColumnElement[bool]
) -> Counter[str]:
    query = select(model.project, func.count()).where(*which).group_by(model.project)
    return Counter(pairs(session, query))
