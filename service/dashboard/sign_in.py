"""Signing in on the dashboard with a token, and out again."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy.orm import Session
from starlette.responses import Response

from service.api import dependencies
from service.auth import audit, authenticate, csrf, sessions, sign_in_link
from service.auth.access_mode import Asked
from service.auth.permissions import Permission
from service.auth.principal import Principal
from service.dashboard import rendering
from service.http import strict_route
from service.schemas import errors

router = rendering.page_router()

_FIELDS = 5


@router.get("/sign-in")
@Permission.OPEN.required
async def show(
    request: Request,
    to: Annotated[str, Query(max_length=2_000)] = "/",
    code: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Ask for a token; where none is asked for, go on.

    With the code of a link, ask only whether to sign in: programs open links too, to show what is
    behind them, and must not use the code up.
    """
    if await _authenticator(request).asks() is Asked.NOBODY:
        return RedirectResponse(_within(to), 303)
    return page(request, to=_within(to), code=code)


@router.post("/sign-in")
@Permission.OPEN.required
@strict_route.takes(strict_route.FORM)
async def sign_in(request: Request) -> Response:
    """Begin a session for the holder of the token in the form, or of the code of a link."""
    csrf.check_origin(request)
    form = await _form(request)
    to = _within(form.get("to", "/"))
    try:
        if code := form.get("code"):
            cookie = await _by_link(request, code)
        else:
            cookie = await _by_token(request, form.get("token", ""))
    except errors.Unauthorized as error:
        return page(request, to=to, fault=error.detail, status=401)
    response = RedirectResponse(to, 303)
    csrf.keep(request, response, cookie)
    return response


@router.post("/sign-out")
@Permission.OPEN.required
@strict_route.takes(strict_route.FORM)
async def sign_out(request: Request) -> Response:
    """End the session; the same page asks for a token again."""
    csrf.check_origin(request)
    cookie, proof = csrf.cookie_of(request), (await _form(request)).get("proof", "")
    key = _authenticator(request).key
    if cookie and not sessions.proves(key, cookie, proof):
        raise csrf.foreign()
    response = RedirectResponse("/sign-in", 303)
    if cookie:
        await dependencies.get_database(request).run(
            partial(sessions.end, key=key, cookie=cookie), write=True
        )
        csrf.forget(request, response)
    return response


def page(
    request: Request, *, to: str, code: str = "", fault: str = "", status: int = 200
) -> HTMLResponse:
    """Ask for a token, or whether to use the ``code`` of a link; then it goes on to ``to``."""
    answer = rendering.render(request, "sign_in.html", status, to=to, code=code, fault=fault)
    answer.headers["Cache-Control"] = "no-store"
    return answer


async def _by_token(request: Request, shown: str) -> str:
    who = await _authenticator(request).proven(request, lambda: authenticate.read(shown))
    if Permission.READ not in who.may:
        raise errors.Unauthorized("A worker's token opens no pages; use one of another kind.")
    return await dependencies.get_database(request).run(
        partial(_begin, request, who, "token"), write=True
    )


async def _by_link(request: Request, code: str) -> str:
    key = _authenticator(request).key

    def redeem(session: Session) -> str:
        token = sign_in_link.redeem(session, key, code, dependencies.get_now(session))
        return _begin(request, Principal.of(token), "link", session)

    with _authenticator(request).trying(request):
        return await dependencies.get_database(request).run(redeem, write=True)


def _begin(request: Request, who: Principal, by: str, session: Session) -> str:
    assert who.token_id is not None
    now = dependencies.get_now(session)
    audit.record(session, who, "POST /sign-in", f"dashboard, by {by}", now)
    return sessions.begin(session, _authenticator(request).key, who.token_id, now)


def _authenticator(request: Request) -> authenticate.Authenticator:
    authenticator = request.app.state.authenticator
    assert isinstance(authenticator, authenticate.Authenticator)
    return authenticator


async def _form(request: Request) -> dict[str, str]:
    try:
        return dict(parse_qsl((await request.body()).decode("ascii"), max_num_fields=_FIELDS))
    except ValueError:
        raise errors.BadRequest(
            "This is no form of this page; open it anew and try again."
        ) from None


def _within(to: str) -> str:
    plain = to.isascii() and to.isprintable() and "\\" not in to
    return to if plain and to.startswith("/") and not to.startswith("//") else "/"
