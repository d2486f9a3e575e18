"""Outside ``/api`` an error is a page for a person, not a problem document for a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.auth import csrf
from service.dashboard import sign_in
from service.dashboard.rendering import render_error
from service.schemas.errors import Unauthorized

Handler = Callable[[Request, Exception], Response]


def install(app: FastAPI) -> None:
    """Turn the answers of the handlers that ``app`` has by now into pages, outside ``/api``."""
    for error, handler in list(app.exception_handlers.items()):
        app.exception_handlers[error] = _with_page(cast(Handler, handler))


def _with_page(handler: Handler) -> Handler:
    def answer(request: Request, error: Exception) -> Response:
        response = handler(request, error)
        if request.url.path.startswith("/api/") or request.url.path == "/api":
            return response
        page = _page(request, error, response)
        for name in ("retry-after", "allow", "www-authenticate"):
            if name in response.headers:
                page.headers[name] = response.headers[name]
        return page

    return answer


def _page(request: Request, error: Exception, response: Response) -> Response:
    if isinstance(error, Unauthorized):  # a person signs in, and goes on where that was needed
        shown = "authorization" in request.headers or csrf.cookie_of(request)
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        to = address if request.method == "GET" else "/"
        return sign_in.page(request, to=to, fault=error.detail if shown else "", status=401)
    return render_error(request, response.status_code, _sentence(response))


def _sentence(response: Response) -> str:
    if response.status_code == 404 and b'"Not Found"' in bytes(response.body):
        return "Nothing is kept at this address; the link may be old, or mistyped."
    try:
        return str(orjson.loads(response.body)["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "The service could not answer; its log says why."
