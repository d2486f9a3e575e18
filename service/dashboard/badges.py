"""Badges of series: newest value, verdict and age, as a picture or as shields reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric
from service import models
from service.analysis.detection.windows import LEAST_POINTS
from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.dashboard import labels
from service.dashboard.cases import id_of
from service.dashboard.rendering import page_router
from service.findings import ACTIVE
from service.findings.rules import OF_CHANGES
from service.history.failing import failing_cases
from service.history.queries import COUNTED, newest_of
from service.http.strict_route import GuardedRoute
from service.schemas.findings import FindingKind
from service.settings import Settings
from service.wording import formats

STALE = timedelta(days=7)
"""A value older than this says nothing of today: its badge is grey."""
GREY = "lightgrey"
_COLOURS = {"brightgreen": "#3a7d0a", "red": "#c0392b", "blue": "#1f6fb2", GREY: "#6e6e6e"}
"""As shields names them; here dark enough for white text (WCAG AA)."""
_KEPT = {"Cache-Control": "no-cache", "Cross-Origin-Resource-Policy": "cross-origin"}
"""A badge stands on other sites' pages."""
_LETTER_PX, _MARGIN_PX = 6.2, 6
_LONGEST = 60


class BadgeRoute(GuardedRoute):
    """A route that asks for no token where the operator publishes the badges of pinned series."""

    async def guard(self, request: Request) -> None:
        """Let a request in, or raise what refuses it."""
        settings: Settings = request.app.state.settings
        pinned = request.path_params["series_id"] in settings.pinned_series
        needed = Permission.OPEN if settings.public_badges and pinned else self.needs
        route = f"{request.method} {self.path}"
        await request.app.state.authenticator.guard(request, needed, route)


router = page_router()
router.route_class = BadgeRoute


@dataclass(frozen=True, slots=True)
class Badge:
    """A label, a message, and a colour by shields' name."""

    label: str
    message: str
    colour: str
    known: bool = True


UNKNOWN = Badge("throughline", "no such series", GREY, known=False)


@router.get("/badges/{series_id}.svg")
@Permission.READ.required
def draw_badge(session: Reading, now: Now, series_id: str) -> Response:
    """Draw the badge of a series; a grey one with the status 404 if there is none."""
    badge = load_badge(session, series_id, now)
    return Response(svg(badge), 200 if badge.known else 404, _KEPT, "image/svg+xml")


@router.get("/badges/{series_id}.json")
@Permission.READ.required
def describe_badge(session: Reading, now: Now, series_id: str) -> Response:
    """Describe the badge of a series as shields' endpoint badge reads it."""
    badge = load_badge(session, series_id, now)
    document = {
        "schemaVersion": 1,
        "label": badge.label,
        "message": badge.message,
        "color": badge.colour,
        "isError": not badge.known,
    }
    return JSONResponse(document, 200 if badge.known else 404, _KEPT)


def load_badge(session: Session, series_id: str, now: datetime) -> Badge:
    """Make the badge of a series, or `UNKNOWN`."""
    series = next(iter(newest_of(session, [series_id])), None)
    if series is None:
        return UNKNOWN
    label = f"{series.case.workload} {metric(series.metric).title.lower()}"[:_LONGEST]
    if failing := failing_cases(session, now).get(id_of(series)):
        since = formats.ago(failing.newest.measured_at, now)
        outcome = labels.status(failing.newest.status).lower()
        return Badge(label, " · ".join(("fails", outcome, since)), "red")
    if not series.points:
        return Badge(label, "not measured", GREY)
    newest = series.points[-1]
    verdict, colour = _verdict(session, series_id)
    if now - newest.measured_at > STALE:
        colour = GREY
    value, age = formats.quantity(newest.value, series.unit), formats.ago(newest.measured_at, now)
    return Badge(label, " · ".join(part for part in (value, verdict, age) if part), colour)


def _verdict(session: Session, series_id: str) -> tuple[str, str]:
    """The word of the active findings on a series, with a colour; none for a short history."""
    active = (
        select(models.FindingRow.kind, models.FindingSeries.effect)
        .join(models.FindingSeries, models.FindingSeries.finding_id == models.FindingRow.id)
        .where(models.FindingSeries.series_id == series_id, models.FindingSeries.ended == "")
        .where(models.FindingRow.state.in_(ACTIVE), models.FindingRow.kind.in_(OF_CHANGES))
        .order_by(models.FindingSeries.first_bad_at.desc())
    )
    if found := session.execute(active.limit(1)).first():
        worse = found.kind == FindingKind.REGRESSION
        return f"{found.kind} {formats.change(found.effect)}", "red" if worse else "brightgreen"
    points = select(models.Point.result_id).where(models.Point.series_id == series_id, *COUNTED)
    if len(session.execute(points.limit(LEAST_POINTS)).all()) < LEAST_POINTS:
        return "", "blue"
    return "no change found", "brightgreen"


def svg(badge: Badge) -> str:
    """Draw a badge; `textLength` fits the text to its part, whatever font the reader has."""
    left, right = (round(len(text) * _LETTER_PX) for text in (badge.label, badge.message))
    split, width = left + 2 * _MARGIN_PX, left + right + 4 * _MARGIN_PX
    label, message = escape(badge.label), escape(badge.message)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" '
        f'aria-label="{label}: {message}"><title>{label}: {message}</title>'
        f'<rect width="{width}" height="20" rx="3" fill="#444"/>'
        f'<path d="M{split} 0h{width - split - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{split}z" '
        f'fill="{_COLOURS[badge.colour]}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">'
        f'<text x="{_MARGIN_PX}" y="14" textLength="{left}">{label}</text>'
        f'<text x="{split + _MARGIN_PX}" y="14" textLength="{right}">{message}</text></g></svg>'
    )
