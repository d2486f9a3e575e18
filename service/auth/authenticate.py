"""Lets requests in: finds out who asks, and whether anybody is asked at all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import cached_property, partial
from math import ceil

import anyio
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from starlette.requests import Request

from service.auth import access_mode, csrf, sessions, signing_key, token_format, token_store
from service.auth.access_mode import Asked
from service.auth.permissions import SAFE, Permission
from service.auth.principal import ANYBODY, READER, Principal, network_of
from service.auth.rate_limit import Buckets
from service.auth.signing_key import Key
from service.auth.token_format import Mistyped, Token
from service.auth.token_store import TokenView
from service.database.session import Database, now_of
from service.errors import ServiceError, TooMany, Unauthorized
from service.settings import Settings

log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""Interval, in s, at which a service with open reading looks for its first administrator."""
_TOUCH_S = token_store.TOUCHED_EVERY.total_seconds()
_WRITE_S = 1.0
"""How often uses of tokens are written down, those of all tokens together: a thousand workers
would otherwise cost a transaction each, every minute."""
_BEARER = "bearer "
MISSING = (
    "This service asks for a token: send the header `Authorization: Bearer tl_...`; the command "
    "line and the worker read it from THROUGHLINE_TOKEN, and beside the service, with its "
    "THROUGHLINE_STATE_DIR, find its own. `throughline token sign-in` prints a link for a browser."
)
_MISTYPED = "This is no whole token: its checksum does not fit. Copy it again, from tl_ to the end."
_CODES = {
    token_format.ENROLMENT: "This is an enrolment code and no token: run "
    "`throughline worker enroll CODE` "
    "once.",
    token_format.SIGN_IN: "This is the code of a sign-in link and no token: "
    "open the link in a browser.",
}
_FAILURES = "Too many requests without a good token came from this address; wait, then try again."
_ENDED = "This token has ended and is sent again and again; wait, or use another one."
_REQUESTS = "This token sends more requests than one may; wait as long as Retry-After says."


class Authenticator:
    """Authenticates the clients of one replica. Its methods run in the event loop."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._asked = access_mode.at_first(settings)
        self._looked_s = -_LOOK_S
        self._touched: dict[str, float] = {}
        """When tokens that were good were last noted as used."""
        self._used: dict[str, datetime] = {}
        """Uses that are still to be written down."""
        self._wrote_s = -_WRITE_S
        self._requests = Buckets(settings.requests_per_s, 2 * settings.requests_per_s)
        self._failures = Buckets(settings.failures_per_min / 60, settings.failures_per_min)
        self._digests: Mapping[str, str] = {}
        """What is stored of tokens, for requests from addresses that have failed too often."""
        self._listed_s = -_LOOK_S
        self._listing = anyio.Lock()

    @cached_property
    def key(self) -> Key:
        """The server's key; read, or made, when it is first needed."""
        return signing_key.of(self._settings)

    async def admit(self, request: Request, wanted: Permission) -> Principal:
        """Find out who sent a request for something that asks for a permission.

        Raises:
            Unauthorized: a token is needed, and this is none or no good one.
            TooMany: the token, or the address, sends too many requests.
        """
        asked = await self.asks()
        if asked is Asked.NOBODY:
            if request.method not in SAFE and csrf.sent(request):
                csrf.check_origin(request)  # any page may send a form that has no body
            return ANYBODY
        if "authorization" in request.headers:
            return await self.proven(request, lambda: shown(request))
        reads = wanted is Permission.READ and request.method in SAFE
        open_to_all = asked is Asked.CHANGES and reads
        if cookie := csrf.cookie_of(request):
            try:
                return await self._signed_in(request, cookie, counted=not open_to_all)
            except Unauthorized:
                if not open_to_all:
                    raise
        elif not open_to_all:
            return await self.proven(request, lambda: shown(request))
        csrf.check_host(request, self._settings.reached_at)
        return READER

    async def proven(self, request: Request, show: Callable[[], Token]) -> Principal:
        """Find out whose token ``show`` gives.

        The failure of a token that has ended counts against the token. All others count against
        the request's address, and however many there are, a good token from there passes.

        Raises:
            Unauthorized: it is not good.
            TooMany: the token, or the address, sends too many requests.
        """
        with self.trying(request) as wait_s:
            given = show()
            if wait_s and not await self._is_ours(given):
                raise self.too_many(wait_s)
            found, now = await self._database.run(partial(self._verify, given), write=False)
        now_s = time.monotonic()
        self._count(found.id, now_s)
        await self._touch(found.id, now, now_s)
        return Principal.of(found)

    def too_many(self, wait_s: float) -> TooMany:
        """The refusal of an address that has failed too often, for so long."""
        return TooMany(_FAILURES, ceil(wait_s))

    @contextmanager
    def trying(self, request: Request) -> Iterator[float]:
        """Count a failure to show something good; gives how long the request's address must wait.

        Raises:
            TooMany: it failed, and so have too many before it.
        """
        address = network_of(request.client.host if request.client else "")
        try:
            yield self._failures.wait_s(address, time.monotonic())
        except Unauthorized as fault:
            name, told = address, _FAILURES
            if isinstance(fault, token_store.Ended):
                name, told = fault.token_id, _ENDED
            now_s = time.monotonic()
            if wait_s := self._failures.wait_s(name, now_s):
                raise TooMany(told, ceil(wait_s)) from None
            self._failures.take(name, now_s)
            raise

    async def asks(self) -> Asked:
        """Return which clients must show a token; once it is everybody, it stays so."""
        if self._asked is not Asked.CHANGES:
            return self._asked
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            if await self._database.run(token_store.any_admin, write=False):
                self._asked = Asked.EVERYBODY
            self._looked_s = now_s
        return self._asked

    def look_again(self) -> None:
        """Look with the next request whether tokens are asked for, and which there are."""
        self._looked_s = self._listed_s = -_LOOK_S

    async def _signed_in(self, request: Request, cookie: str, *, counted: bool) -> Principal:
        """Return the principal of the session that a cookie belongs to.

        A change must come from a page of this service and carry the proof of its session. A session
        that is over is a failure to be ``counted`` where nothing goes without one.
        """
        with self.trying(request) if counted else nullcontext():
            found, now = await self._database.run(partial(self._find, cookie), write=False)
        request.state.proof = sessions.proof_of(self.key, cookie)
        if request.method not in SAFE:
            csrf.check_origin(request)
            if not sessions.proves(self.key, cookie, request.headers.get(csrf.PROOF, "")):
                raise csrf.foreign()
        now_s = time.monotonic()
        self._count(found.id, now_s)
        await self._touch(found.id, now, now_s)  # whoever looks at the tokens sees their latest use
        return Principal.of(found)

    def _find(self, cookie: str, session: Session) -> tuple[TokenView, datetime]:
        now = now_of(session)
        return sessions.find(session, self.key, cookie, now), now

    def _verify(self, given: Token, session: Session) -> tuple[TokenView, datetime]:
        now = now_of(session)
        return token_store.verify(session, self.key, given, now), now

    async def _is_ours(self, given: Token) -> bool:
        """Return True if this service made the token, ended or not.

        The answer comes from memory, so that made-up tokens reach the database at most once a
        second.
        """
        async with self._listing:
            if self._matches(given):
                return True
            if time.monotonic() - self._listed_s < _LOOK_S:
                return False
            self._digests = await self._database.run(token_store.digests, write=False)
            self._listed_s = time.monotonic()
            return self._matches(given)

    def _matches(self, given: Token) -> bool:
        stored = self._digests.get(given.id)
        return stored is not None and token_format.matches(self.key.value, given, stored)

    def _count(self, token_id: str, now_s: float) -> None:
        wait_s = self._requests.wait_s(token_id, now_s)
        if wait_s:
            raise TooMany(_REQUESTS, ceil(wait_s))
        self._requests.take(token_id, now_s)

    async def _touch(self, token_id: str, now: datetime, now_s: float) -> None:
        if now_s - self._touched.get(token_id, -_TOUCH_S) >= _TOUCH_S:
            self._touched[token_id] = now_s
            self._used[token_id] = now
        await self._write_uses(now_s)

    async def _write_uses(self, now_s: float) -> None:
        """Write down what tokens were used, if the last time is long enough ago."""
        if not self._used or now_s - self._wrote_s < _WRITE_S:
            return
        used, self._used, self._wrote_s = self._used, {}, now_s
        try:
            await self._database.run(lambda session: token_store.touch(session, used), write=True)
        except (DBAPIError, ServiceError) as error:  # a note; whoever asks shall not miss it
            log.warning("the use of %d tokens could not be noted: %s", len(used), error)


def shown(request: Request) -> Token:
    """The token in a request's header; nowhere else is one looked for.

    Raises:
        Unauthorized: there is none, or it is mistyped.
    """
    given = request.headers.get("authorization", "")
    if given[: len(_BEARER)].lower() != _BEARER:
        raise Unauthorized(MISSING)
    return read(given[len(_BEARER) :])


def read(text: str) -> Token:
    """Read a token that somebody gave.

    Raises:
        Unauthorized: it is mistyped, or an enrolment code.
    """
    try:
        found = token_format.read(text.strip())
    except Mistyped:
        raise Unauthorized(_MISTYPED) from None
    if found.kind in _CODES:
        raise Unauthorized(_CODES[found.kind])
    return found
