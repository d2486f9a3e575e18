"""Renders pages from templates, and gives pages their router."""

from __future__ import annotations

import gzip
import hashlib
from datetime import UTC, datetime

from fastapi import APIRouter, Depends, Request, params
from fastapi.responses import HTMLResponse

from service import findings
from service.api.dependencies import Reading
from service.auth.permissions import Permission
from service.auth.principal import READER
from service.dashboard.page_templates import TEMPLATES
from service.http.security_headers import PAGE_POLICY
from service.http.strict_route import GuardedRoute

LEVEL = 5
"""Of gzip: 0.6 ms for 60 kB, and within 3 % of what the highest level saves."""
_TITLES = {
    400: "That request was not understood",
    403: "That is not yours to do",
    404: "There is no such page",
    405: "That cannot be done here",
    422: "That address has a mistake in it",
    429: "That was too much at once",
    503: "The database cannot be used just now",
}


def render(request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
    """Answer with a page. Pages are never kept by a cache without asking again."""
    # Where nobody was asked who he is, as on the page of a request that broke, nothing is offered.
    reader = getattr(request.state, "principal", None)
    html = TEMPLATES.get_template(template).render(
        path=request.url.path,
        notice=_notice(request),
        here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        proof=getattr(request.state, "proof", ""),
        reader=reader or "",
        may_triage=reader is not None and Permission.TRIAGE in reader.may,
        may_submit=reader is not None and Permission.SUBMIT in reader.may,
        may_administer=reader is not None and Permission.ADMIN in reader.may,
        may_sign_in=reader is READER,
        attention=getattr(request.state, "attention", 0),
        now=values.pop("now", None) or datetime.now(UTC),
        **values,
    )
    headers = {
        "Cache-Control": "no-cache",
        "Vary": "HX-Request, Accept-Encoding",
        "Content-Security-Policy": PAGE_POLICY,
    }
    return _sent(request, html.encode(), status, headers)


def _notice(request: Request) -> str:
    """The operator's sentence; none on the page of a request that reached no application."""
    app = request.scope.get("app")
    return str(app.state.settings.notice) if app else ""


def _sent(request: Request, html: bytes, status: int, headers: dict[str, str]) -> HTMLResponse:
    """Send a page, compressed; only its name if the browser has the same one already.

    A page that holds the proof of a session stays as it is: beside text that the address brings
    in, its compressed size would tell a stranger the proof piece by piece (BREACH).
    """
    if status == 200:
        headers["ETag"] = f'W/"{hashlib.blake2b(html, digest_size=16).hexdigest()}"'
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return HTMLResponse(None, 304, headers)
    secret = getattr(request.state, "proof", "") and not partial(request)
    if "gzip" in request.headers.get("accept-encoding", "") and not secret:
        html = gzip.compress(html, LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return HTMLResponse(html, status, headers)


def render_error(request: Request, status: int, sentence: str) -> HTMLResponse:
    """Answer a browser with a page that says what went wrong and where to go on.

    For any path outside ``/api``; it needs no database.
    """
    default = "Something went wrong here" if status >= 500 else "That did not work"
    title = _TITLES.get(status, default)
    return render(request, "error.html", status, title=title, sentence=sentence)


def partial(request: Request) -> bool:
    """Say whether htmx asks for the part of a page that changes, rather than a reader for all."""
    return request.headers.get("HX-Request") == "true"


def count(request: Request, session: Reading) -> None:
    """Note how many findings ask for attention; a part of a page does not show it."""
    if not partial(request):
        request.state.attention = findings.count_active(session)


COUNTED = Depends(count, scope="function")
"""For the router of pages that say it."""


def page_router(*more: params.Depends) -> APIRouter:
    """A router for pages, which the API's description does not list."""
    return APIRouter(
        include_in_schema=False,
        route_class=GuardedRoute,
        default_response_class=HTMLResponse,
        dependencies=more,
    )
