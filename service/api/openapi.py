"""The problems that calls may answer with, as the API's own description states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
import orjson
from fastapi import FastAPI, Request, Response

from service.auth.permissions import Permission
from service.http.exchange import Shared
from service.http.strict_route import GuardedRoute
from service.schemas.access import Problem

_MEANINGS = {
    400: "The request or its JSON is malformed, or can be read in more than one way.",
    401: "A token is needed, and there is none or no good one.",
    403: "The token is good, and not for this.",
    404: "There is nothing under that name.",
    408: "The body did not come in time.",
    409: "What is stored says otherwise: the attempt is over, or was never the caller's.",
    413: "The body is too large.",
    415: "The body is not what the call takes: plain JSON, or of a trace a gzip file.",
    422: "The request says something that cannot be.",
    429: "Too many requests; wait as long as `Retry-After` says.",
    431: "The headers are too many or too large.",
    500: "The service has a fault; its log says which.",
    503: "The database cannot be used, or the service is overloaded; try again.",
}
EVERYWHERE = (400, 401, 403, 408, 413, 415, 422, 429, 431, 500, 503)
"""What any call may answer, before its own work is asked for."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's ``responses``: these statuses, each with a problem document."""
    reference = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    content = {"application/problem+json": {"schema": reference}}
    return {status: {"description": _MEANINGS[status], "content": content} for status in statuses}


def _say_who_may_call(document: dict[str, Any], permissions: Mapping[str, Permission]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            needed = permissions[f"{method.upper()} {path}"]
            operation["x-permission"] = needed.value
            # The empty object: a service that asks for no tokens takes a call without one.
            operation["security"] = [] if needed is Permission.OPEN else [{"token": []}, {}]


class DescribedApi(FastAPI):
    """An application whose description knows the problem document, which no endpoint returns."""

    def setup(self) -> None:
        """Give the description out; FastAPI would write it anew, in other bytes, for everybody."""
        assert self.openapi_url
        self.router.route_class = GuardedRoute  # for what is added here; routers bring their own
        self._described = b""
        self._describing = anyio.Lock()
        self.add_api_route(self.openapi_url, self._describe, include_in_schema=False)

    @Permission.OPEN.required
    async def _describe(self, request: Request) -> Response:  # noqa: ARG002
        async with self._describing:
            # It takes a second, once: in a thread, and one alone, because strangers may ask.
            if not self._described:
                self._described = orjson.dumps(await anyio.to_thread.run_sync(self.openapi))
        return Shared(self._described, media_type="application/json")

    def openapi(self) -> dict[str, Any]:
        """Describe the API; made once."""
        if self.openapi_schema is None:
            components = super().openapi()["components"]
            components["schemas"][Problem.__name__] = Problem.model_json_schema()
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            _say_who_may_call(self.openapi_schema or {}, self.state.permissions)
        assert self.openapi_schema is not None
        return self.openapi_schema
