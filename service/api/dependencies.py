"""The dependencies of endpoints: the session, the time, the terms, well-formed parameters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Protocol, Self, TypeVar

from fastapi import Depends, Header, Path, Query, Request
from sqlalchemy.orm import Session

from benchmarks import contracts
from service.auth.principal import Principal
from service.auth.signing_key import Key
from service.comparisons.bisection import automatic
from service.database.session import Database, now_of
from service.http.strict_route import Plain
from service.jobs import backfill
from service.jobs.types import Terms
from service.schemas.costs import Price
from service.schemas.errors import Invalid


def get_database(request: Request) -> Database:
    """The database of the application that answers this request."""
    database = request.app.state.database
    assert isinstance(database, Database)
    return database


async def get_session(request: Request) -> AsyncIterator[Session]:
    """A session per request; use as ``Depends(get_session, scope="function")``.

    With that scope it is committed before the answer leaves, so a client is never told of a row
    that then fails to commit. Requests that only read get a session that cannot write, and whoever
    is bound to a project (``request.state.project``) one that finds nothing of another. What
    ``request.state.witness`` is, if anything, is called last: to log the call with what it changed.
    """
    witness = getattr(request.state, "witness", None)
    write = request.method not in ("GET", "HEAD")
    async with get_database(request).request_session(
        write=write, project=request.state.project, witness=witness
    ) as session:
        yield session


def get_now(session: Annotated[Session, Depends(get_session, scope="function")]) -> datetime:
    """The database's time at the start of the request's work."""
    return now_of(session)


DatabaseSession = Annotated[Session, Depends(get_session, scope="function")]
Reading = DatabaseSession
"""The session of a page, which only reads."""
Now = Annotated[datetime, Depends(get_now, scope="function")]
Id = Annotated[contracts.Id, Path()]
TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", pattern=r"^[\x21-\x7e]{1,200}$")
]
Cursor = Annotated[str | None, Query(max_length=2_000, description="`next_cursor` of a page.")]
Limit = Annotated[int, Query(ge=1, le=500), Plain]
Wait = Annotated[float, Query(ge=0, le=30, allow_inf_nan=False)]


async def get_terms(request: Request) -> Terms:
    """For how long this service leases."""
    terms = request.app.state.terms
    assert isinstance(terms, Terms)
    return terms


async def get_principal(request: Request) -> Principal:
    """Return the sender of the request, as `service.auth.authorize` found it."""
    principal = request.state.principal
    assert isinstance(principal, Principal)
    return principal


class _OfProject(Protocol):
    """A request that may say of which project it is."""

    @property
    def project(self) -> str | None: ...
    def model_copy(self, *, update: Mapping[str, Any]) -> Self: ...


R = TypeVar("R", bound=_OfProject)


def owned(request: R, caller: Principal) -> R:
    """A request as it is of whoever sent it: of his project, if he is bound to one.

    Raises:
        Forbidden: it says that it is of another one.
        Invalid: its source is one that only the service gives.
    """
    source = getattr(request, "source", "")
    if source == automatic.SOURCE or source.startswith(backfill.SOURCE):
        raise Invalid(f"The source {source} stands for what nobody asked for: give another one.")
    owner = caller.owner(request.project)
    return request if owner == request.project else request.model_copy(update={"project": owner})


def get_prices(request: Request) -> tuple[Price, ...]:
    """Give the prices of GPUs from the operator's file."""
    prices: tuple[Price, ...] = request.app.state.prices
    return prices


def get_key(request: Request) -> Key:
    """The server's key."""
    key = request.app.state.authenticator.key
    assert isinstance(key, Key)
    return key


Caller = Annotated[Principal, Depends(get_principal)]
Prices = Annotated[tuple[Price, ...], Depends(get_prices)]
ServerKey = Annotated[Key, Depends(get_key)]


LeaseTerms = Annotated[Terms, Depends(get_terms)]
