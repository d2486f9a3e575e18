"""The session's cookie and the origin of a request, which a browser sends by itself."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from service.auth.sessions import LASTS
from service.schemas.errors import Forbidden

PROOF = "x-csrf-token"
"""The header with `sessions.proof_of` that pages send with each change."""
_FOREIGN = (
    "This did not come from a page of this service; nothing was changed. Open the page anew and "
    "try again."
)


def cookie_of(request: Request) -> str:
    """The session's cookie; nothing if there is none."""
    return request.cookies.get(_name(request), "")


def keep(request: Request, response: Response, cookie: str) -> None:
    """Have the browser keep the session's cookie, out of every script's reach."""
    response.set_cookie(
        _name(request),
        cookie,
        max_age=int(LASTS.total_seconds()),
        path="/",
        secure=_is_https(request),
        httponly=True,
        samesite="lax",  # strict would meet whoever follows a link from a chat with a sign-in page
    )


def forget(request: Request, response: Response) -> None:
    """Have the browser forget it."""
    response.delete_cookie(
        _name(request), path="/", secure=_is_https(request), httponly=True, samesite="lax"
    )


def sent(request: Request) -> bool:
    """Return True if a browser sent the request: only a browser sends where it comes from."""
    return not {"sec-fetch-site", "origin"}.isdisjoint(request.headers.keys())


def check_origin(request: Request) -> None:
    """Make sure that a change comes from a page of this service.

    Raises:
        Forbidden: it comes from elsewhere, or does not say.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise Forbidden(_FOREIGN)
        return
    # An origin is a scheme, "://" and what the Host header says; "null" is nobody's.
    if request.headers.get("origin", "").partition("://")[2] != request.headers.get("host"):
        raise Forbidden(_FOREIGN)


def check_host(request: Request, reached_at: str) -> None:
    """Make sure that a service for its own machine was asked for under a name of its own.

    A page of a stranger whose name was pointed at the loopback (DNS rebinding) asks under that
    name. No public name is without a dot, and an address is nobody's name.

    Raises:
        Forbidden: the name could be anybody's.
    """
    host = _hostname(request.headers.get("host", ""))
    if "." not in host or host.endswith(".localhost") or host == reached_at.lower():
        return
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise Forbidden(
            "This service is for its own machine and asks for no tokens, so it answers under the "
            "machine's own names only: use http://127.0.0.1, make tokens, or set "
            "THROUGHLINE_ACCESS=open."
        ) from None


def foreign() -> Forbidden:
    """The refusal of a change whose proof is wrong."""
    return Forbidden(_FOREIGN)


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return "no.host"


def _name(request: Request) -> str:
    if _is_https(request):
        return "__Host-throughline"
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"throughline-{port}" if port.isdecimal() else "throughline"


def _is_https(request: Request) -> bool:
    return bool(request.scope["scheme"] == "https")  # without putting a whole URL together
