"""The pages of nights, and their feed."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from service.api import nights
from service.api.dependencies import Now, Prices, Reading
from service.auth.permissions import Permission
from service.dashboard import rendering
from service.dashboard.query_params import Cursor
from service.findings.nights import announce, facts
from service.outbox.sinks import NOBODY
from service.wording import night as words

router = rendering.page_router(rendering.COUNTED)

PER_PAGE = 50
IN_FEED = 30


@router.get("/nights")
@Permission.READ.required
def list_nights(request: Request, session: Reading, now: Now, cursor: Cursor = "") -> HTMLResponse:
    """Show the nights that were reported, the newest first."""
    page = announce.list_reported(session, cursor or None, PER_PAGE)
    return rendering.render(request, "nights.html", now=now, page=page)


@router.get("/nights.atom")
@Permission.READ.required
def feed_nights(request: Request, session: Reading) -> Response:
    """Give the newest nights as they were reported, for a reader of feeds."""
    told = [(at, words.account(one)) for at, one in announce.reported(session, IN_FEED)]
    return Response(words.atom(told, _address(request)), media_type="application/atom+xml")


@router.get("/nights/{night}")
@Permission.READ.required
def show_night(
    request: Request,
    session: Reading,
    now: Now,
    prices: Prices,
    night: nights.NightName,
    project: nights.OfProject = None,
) -> HTMLResponse:
    """Show what is known of a night by now."""
    report = facts.gather(session, nights.night_of(session, night, project), now, project, prices)
    return rendering.render(
        request, "night.html", now=now, report=report, account=words.account(report)
    )


def _address(request: Request) -> str:
    """The start of links to this service's pages, in what is read elsewhere."""
    state = request.app.state
    if state.sinks is not NOBODY:
        return str(state.sinks.address)
    return f"http://{state.settings.reached_at}:{state.settings.port}"
