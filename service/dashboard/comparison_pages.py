"""The pages of comparisons: which there are, and what came of one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse

from service import comparisons
from service.api.dependencies import DatabaseSession as Reading
from service.api.dependencies import Now
from service.auth.permissions import Permission, needs
from service.dashboard.rendering import partial, render
from service.dashboard.routers import COUNTED, page_router
from service.schemas.gate import GOOD, REGRESSIONS

router = page_router(COUNTED)

PER_PAGE = 50


@router.get("/comparisons")
@needs(Permission.READ)
def list_comparisons(
    request: Request,
    session: Reading,
    now: Now,
    cursor: Annotated[str, Query(max_length=2_000)] = "",
) -> HTMLResponse:
    """Show what was measured against what, newest first."""
    page = comparisons.list_comparisons(session, after=cursor or None, limit=PER_PAGE)
    return render(request, "comparisons.html", now=now, page=page)


@router.get("/comparisons/{comparison_id}")
@needs(Permission.READ)
def show_comparison(
    request: Request, session: Reading, now: Now, comparison_id: str
) -> HTMLResponse:
    """Show one comparison; it refreshes itself until it is over."""
    return render(
        request,
        "_comparison.html" if partial(request) else "comparison.html",
        now=now,
        one=comparisons.load_comparison(session, comparison_id, now),
        good=GOOD,
        regressions=REGRESSIONS,
    )
