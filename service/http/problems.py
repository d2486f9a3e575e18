"""Answers to errors: ``application/problem+json`` (RFC 9457).

No answer repeats a value that was sent: it may be huge or hostile.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from service.database.failures import explain
from service.schemas.access import Problem
from service.schemas.errors import BUSY, DatabaseUnavailable, ServiceError

log = logging.getLogger(__name__)

_HTTP = {
    400: ("bad-request", "Bad request"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "Method not allowed"),
}


def problem(
    status: int, type_: str, title: str, detail: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error response."""
    body = Problem(type=type_, title=title, status=status, detail=detail)
    return _response(body, headers)


def answer(error: ServiceError) -> JSONResponse:
    """The response that an expected error becomes."""
    return problem(error.status_code, error.type, error.title, error.detail, error.answer_headers())


def _response(body: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(
        body.model_dump(exclude_none=True),
        status_code=body.status,
        headers=dict(headers or {}),
        media_type="application/problem+json",
    )


def _expected(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    assert isinstance(error, ServiceError)
    return answer(error)


def _http(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    assert isinstance(error, HTTPException)
    type_, title = _HTTP.get(error.status_code, ("http-error", "Request refused"))
    return problem(error.status_code, type_, title, str(error.detail), error.headers)


def _invalid(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    assert isinstance(error, RequestValidationError)
    faults = [
        {"type": fault["type"], "loc": _place(fault["loc"]), "msg": fault["msg"][:500]}
        for fault in list(error.errors())[:20]
    ]
    first = f"{'.'.join(str(part) for part in faults[0]['loc'])}: {faults[0]['msg']}"
    body = Problem(type="invalid", title="Invalid request", status=422, detail=first, errors=faults)
    return _response(body)


def _place(loc: Sequence[int | str]) -> list[int | str]:
    return [
        part if isinstance(part, int) else part[:100].encode("ascii", "backslashreplace").decode()
        for part in loc[:20]
    ]


def _database(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DBAPIError)
    known = explain(error)
    if known is None:
        return _unexpected(request, error)
    log.warning("%s %s: %s", request.method, request.url.path, known.detail)
    return answer(known)


def _no_connection(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    return answer(DatabaseUnavailable(BUSY))


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "internal", "The service failed", "The service has a fault; see its log.")


def install(app: FastAPI) -> None:
    """Make every error of ``app`` a problem document."""
    app.add_exception_handler(ServiceError, _expected)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(DBAPIError, _database)
    app.add_exception_handler(PoolTimeout, _no_connection)
    app.add_exception_handler(Exception, _unexpected)
