"""The page of the outbox: what was sent to other programs."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import HTMLResponse

from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.dashboard import rendering
from service.dashboard.query_params import Cursor
from service.outbox import deliveries

router = rendering.page_router(rendering.COUNTED)

DELIVERIES_PER_PAGE = 50


@router.get("/outbox")
@Permission.READ.required
def list_deliveries(
    request: Request, session: Reading, now: Now, cursor: Cursor = ""
) -> HTMLResponse:
    """Show each delivery with its state, the newest first; dead ones can be sent again."""
    page = deliveries.list_deliveries(session, after=cursor or None, limit=DELIVERIES_PER_PAGE)
    sinks = [one.name for one in request.app.state.sinks.sink]
    return rendering.render(request, "outbox.html", now=now, page=page, sinks=sinks)
