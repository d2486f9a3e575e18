"""The pages of bisections."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import HTMLResponse

from service.api.dependencies import Now, Prices, Reading
from service.auth.permissions import Permission
from service.comparisons import bisection
from service.dashboard import probe_dots, rendering
from service.dashboard.query_params import Cursor
from service.jobs.spent import spent_on
from service.models import BisectionRow
from service.wording import bisected

router = rendering.page_router(rendering.COUNTED)

BISECTIONS_PER_PAGE = 50


@router.get("/bisections")
@Permission.READ.required
def list_bisections(
    request: Request, session: Reading, now: Now, cursor: Cursor = ""
) -> HTMLResponse:
    """Show which ranges were bisected, and what came of it, newest first."""
    page = bisection.list_bisections(session, after=cursor or None, limit=BISECTIONS_PER_PAGE)
    return rendering.render(request, "bisections.html", now=now, page=page)


@router.get("/bisections/{bisection_id}")
@Permission.READ.required
def show_bisection(
    request: Request, session: Reading, now: Now, prices: Prices, bisection_id: str
) -> HTMLResponse:
    """Show one bisection, probe by probe; it refreshes itself until it is over."""
    one = bisection.load_bisection(session, bisection_id)
    return rendering.render(
        request,
        "_bisection.html" if rendering.partial(request) else "bisection.html",
        now=now,
        one=one,
        cost=spent_on(session, BisectionRow, bisection_id, now, prices),
        dots=probe_dots.probe_dots(one),
        title_of=probe_dots.probe_title,
        chance=bisected.probably,
        noun=bisected.noun_of(one.good),
    )
