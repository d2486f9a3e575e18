"""Routes of the service: each asks who is there, and then for the request's body.

In this order, because whoever is refused shall not have held, or had parsed, what they sent. A body
is parsed once: pydantic reads JSON straight into the endpoint's model (docs/adr/0007).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import anyio.to_thread
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import request_params_to_args
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel, BeforeValidator, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from benchmarks.contracts import bounds
from service.auth.permissions import SAFE, Permission, Undeclared, needed
from service.http.exchange import EXCHANGE, SMALL_B, Exchange
from service.schemas.errors import Invalid, MalformedDocument, WrongMediaType

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
F = TypeVar("F", bound=Callable[..., Any])
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
_TAKES = "taken_body"
_THREAD_B = 2**18
"""A larger document is parsed in a thread, so that others are answered meanwhile."""
_FAULTS = 20
"""Faults that an answer lists."""
_DIGITS = re.compile(r"[0-9]{1,18}")


def _plain(value: object) -> object:
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise ValueError("an integer is written in digits")
    return value


Plain = BeforeValidator(_plain)
"""Stands beside the type of an integer in an address: pydantic would take ``+1`` and ``1_0``."""


@dataclass(frozen=True, slots=True)
class _Body:
    """The body that a route takes."""

    media_type: str
    limit_b: int | None = None
    """None: as the settings say."""
    model: type[BaseModel] | None = None
    """What JSON is read into."""


def takes(media_type: str, limit_b: int | None = None) -> Callable[[F], F]:
    """Declare that an endpoint reads a body itself, and its size if it is not the usual one."""

    def declare(endpoint: F) -> F:
        setattr(endpoint, _TAKES, _Body(media_type, limit_b))
        return endpoint

    return declare


class GuardedRoute(APIRoute):
    """A route that nobody reaches, and to which nobody's body is read, before the guard agrees.

    Its endpoint declares with `Permission.required` what it asks for.
    """

    def get_route_handler(self) -> Handler:
        """Wrap FastAPI's handler, which would read the body first."""
        handle = super().get_route_handler()
        needs, body = self.needs, self._declared_body()

        async def guarded(request: Request) -> Response:
            await self.guard(request)
            if body is not None:
                raw = await self.read(body, request)
                if raw and body.model is not None:
                    request._json = await _document(body.model, raw)
            # Where FastAPI, without its middleware, looks for the stack that closes a form's files.
            request.scope["fastapi_middleware_astack"] = request.scope["fastapi_inner_astack"]
            response = await handle(request)
            if needs is Permission.ADMIN and request.method not in SAFE:
                request.app.state.authenticator.look_again()
            return response

        return guarded

    @cached_property
    def needs(self) -> Permission:
        """What the endpoint asks for."""
        return needed(self.endpoint)

    async def guard(self, request: Request) -> None:
        """Let a request in, or raise what refuses it."""
        route = f"{request.method} {self.path}"
        await request.app.state.authenticator.guard(request, self.needs, route)

    async def read(self, body: _Body, request: Request) -> bytes:
        """Read a request's body, which stays with the request, and check its media type.

        A stranger, for whom no token vouches, may send `SMALL_B`, or what the route declares.
        """
        exchange: Exchange = request.scope[EXCHANGE]
        usual_b = request.app.state.settings.body_limit_b
        default_b = SMALL_B if self.needs is Permission.OPEN else usual_b
        raw = await exchange.body(default_b if body.limit_b is None else body.limit_b)
        request._body = raw
        if raw:
            _check_type(exchange, body.media_type)
        return raw

    def _declared_body(self) -> _Body | None:
        if self.body_field is None:
            return getattr(self.endpoint, _TAKES, None)
        return _Body(JSON, model=cast(type[BaseModel], self.body_field.field_info.annotation))


class StrictRoute(GuardedRoute):
    """A route of the API; `service.api.router` makes routers of them."""

    def get_route_handler(self) -> Handler:
        """Refuse parameters of the query that nobody reads."""
        handle = super().get_route_handler()
        known = _parameters(self.dependant)

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                _check_known(request.query_params.keys(), known)
            return await handle(request)

        return strict


class WorkerRoute(StrictRoute):
    """A route that every worker calls again and again: nothing of FastAPI's runs with a call.

    Around an endpoint FastAPI opens exit stacks, reads the body's type once more and looks up how
    each parameter is declared, which takes as long as a heartbeat's own work. What the endpoint
    declares holds here too: a body, and what its dependencies read of path and headers. It makes
    its response itself.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._body = self._declared_body()
        self._document = self.dependant.body_params[0].name if self.body_field else ""
        self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        if scope["query_string"]:
            _check_known(request.query_params.keys(), set())
        await self.guard(request)
        raw = await self.read(self._body, request) if self._body else b""
        given = await _arguments(self.dependant, request)
        if self._body and self._body.model:
            given[self._document] = await _document(self._body.model, raw)
        response: Response = await self.endpoint(**given)
        await response(scope, receive, send)


async def _arguments(of: Dependant, request: Request) -> dict[str, Any]:
    """Read what an endpoint, or a dependency, takes of a request beside its body."""
    given: dict[str, Any] = {}
    received: Mapping[str, Any]
    for fields, received in (
        (of.path_params, request.path_params),
        (of.header_params, request.headers),
    ):
        for field in fields:
            given[field.name], faults = field.validate(received.get(field.alias))
            if faults:
                raise RequestValidationError(request_params_to_args(fields, received)[1])
    for part in of.dependencies:
        assert part.call is not None
        assert part.name is not None
        given[part.name] = await part.call(**await _arguments(part, request))
    if of.request_param_name:
        given[of.request_param_name] = request
    return given


def declared(routes: Sequence[BaseRoute]) -> Mapping[str, Permission]:
    """Return what each route needs, by its method and template, such as ``GET /api/v1/jobs``.

    Raises:
        Undeclared: a route has no guard.
    """
    permissions: dict[str, Permission] = {}
    for route in iter_route_contexts(routes):
        guarded = route.original_route
        if not isinstance(guarded, GuardedRoute):
            raise Undeclared(f"{route.path} has no guard")
        methods = route.methods or set()
        permissions |= {f"{method} {route.path}": needed(guarded.endpoint) for method in methods}
    return permissions


async def _document(model: type[BaseModel], raw: bytes) -> BaseModel:
    if not raw:
        missing = {"type": "missing", "loc": ("body",), "msg": "Field required"}
        raise RequestValidationError([missing])
    if len(raw) > _THREAD_B:
        return await anyio.to_thread.run_sync(parsed, model, raw)
    return parsed(model, raw)


def parsed(model: type[BaseModel], raw: bytes) -> BaseModel:
    """Read JSON into a model.

    Raises:
        MalformedDocument: it is no JSON, or holds too many values. 16 MiB of brackets would take
            600 MB and 7 s.
        RequestValidationError: the model does not take it.
    """
    if bounds.signs(raw) > bounds.SIGNS:
        raise MalformedDocument("The body holds too many values; send less at once.")
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        if faults[0]["type"] == "json_invalid":
            raise MalformedDocument(f"The body is not well-formed: {faults[0]['msg']}.") from None
        placed = [{**fault, "loc": ("body", *fault["loc"])} for fault in faults[:_FAULTS]]
        raise RequestValidationError(placed) from None


def _check_type(exchange: Exchange, media_type: str) -> None:
    said = exchange.headers.get(b"content-type", b"").decode("latin-1")
    if said.partition(";")[0].strip().lower() != media_type:
        raise WrongMediaType(media_type)


def _check_known(given: Iterable[str], known: set[str]) -> None:
    if not known.issuperset(given):
        raise Invalid(
            "The query has a parameter that this call does not know; "
            "/api/v1/openapi.json lists those that it knows."
        )


def _parameters(dependant: Dependant) -> set[str]:
    names = {field.alias for field in dependant.query_params}
    return names.union(*map(_parameters, dependant.dependencies))
