"""Lets requests in: finds out who sends one, and whether they may call its route.

A token that was good is remembered. Once a second the database is asked whether any token was
rotated or revoked since; then all are looked up anew. So a token that is ended here is refused with
the next request, and one that is ended elsewhere (another replica, the command line) within
`_LOOK_S`.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from math import ceil

import anyio
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from starlette.requests import Request

from service.auth import access_mode, audit, csrf, sessions, signing_key, token_format, token_store
from service.auth.access_mode import Asked
from service.auth.permissions import AUDITED, MAY, SAFE, Permission
from service.auth.principal import ANYBODY, READER, Principal, network_of
from service.auth.token_format import Mistyped, Token
from service.database.session import Database, now_of
from service.schemas.access import TokenView
from service.schemas.errors import Forbidden, ServiceError, TooMany, Unauthorized
from service.settings import Settings

log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""Interval, in s, at which the database is asked for changes: tokens that were ended, and the first
administrator of a service with open reading."""
_REMEMBERED = 20_000
"""Good tokens in memory at most."""
_NAMES = 20_000
"""Buckets that are kept; the one that was not used for longest goes first."""
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
    "`throughline worker enroll CODE` once.",
    token_format.SIGN_IN: "This is the code of a sign-in link and no token: "
    "open the link in a browser.",
}
_FAILURES = "Too many requests without a good token came from this address; wait, then try again."
_ENDED = "This token has ended and is sent again and again; wait, or use another one."
_REQUESTS = "This token sends more requests than one may; wait as long as Retry-After says."


@dataclass(frozen=True, slots=True)
class _Good:
    """A token that was verified."""

    principal: Principal
    expires_at: datetime | None
    changes: int
    """Count of changes to tokens (`token_store.changes`) just before it was verified."""


class Buckets:
    """``per_s`` requests a second for each name, and ``burst`` at once; no limit if it is 0.

    Each replica counts for itself, in memory: a limit is there to keep one client from taking the
    service from the others, not to count to the last request.
    """

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = max(burst, 1.0)  # less would let nobody in at all
        self._filled: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: str, now_s: float) -> float:
        """Return the time in s until ``name`` may ask; 0 if it may now. Counts nothing."""
        if self._per_s <= 0:
            return 0.0
        return max(0.0, (1.0 - self._level(name, now_s)) / self._per_s)

    def take(self, name: str, now_s: float) -> None:
        """Count one request; a bucket never owes more than one second."""
        if self._per_s <= 0:
            return
        left = max(self._level(name, now_s) - 1.0, -self._per_s)
        self._filled[name] = (left, now_s)
        self._filled.move_to_end(name)
        if len(self._filled) > _NAMES:
            self._filled.popitem(last=False)

    def _level(self, name: str, now_s: float) -> float:
        left, then_s = self._filled.get(name, (self._burst, now_s))
        return min(self._burst, left + (now_s - then_s) * self._per_s)


class Authenticator:
    """Authenticates the clients of one replica. Its methods run in the event loop."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._asked = access_mode.at_first(settings)
        self._looked_s = self._checked_s = -_LOOK_S
        self._good: dict[bytes, _Good] = {}
        """Verified tokens by SHA-256 of the header that they came in."""
        self._changes = 0
        self._now = datetime.min.replace(tzinfo=UTC)
        """The database's time at `_checked_s`."""
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
    def key(self) -> signing_key.Key:
        """The server's key; read, or made, when it is first needed."""
        return signing_key.of(self._settings)

    async def guard(self, request: Request, needs: Permission, route: str) -> None:
        """Let a request in, by its head alone; note its sender and project in ``request.state``.

        Args:
            request: the request.
            needs: what its route declares.
            route: the route's method and template, for the audit log.

        Raises:
            Unauthorized: there is no good token.
            Forbidden: the token is of a kind that may not do this.
            TooMany: too many requests.
        """
        principal = ANYBODY if needs is Permission.OPEN else await self.admit(request, needs)
        if needs not in principal.may:
            raise Forbidden(_refusal(principal, needs))
        request.state.principal = principal
        request.state.project = principal.project
        if needs in AUDITED and request.method not in SAFE:
            request.state.witness = audit.audit_hook(principal, route, request.url.path)

    async def admit(self, request: Request, needs: Permission) -> Principal:
        """Find out who sent a request for something that needs a permission.

        Raises:
            Unauthorized: a token is needed, and this is none or no good one.
            TooMany: the token, or the address, sends too many requests.
        """
        asked = await self.asks()
        if asked is Asked.NOBODY:
            if request.method not in SAFE and csrf.sent(request):
                csrf.check_origin(request)  # any page may send a form that has no body
            return ANYBODY
        if header := request.headers.get("authorization"):
            return await self._by_header(request, header)
        open_to_all = asked is Asked.CHANGES and needs is Permission.READ and request.method in SAFE
        if cookie := csrf.cookie_of(request):
            try:
                return await self._signed_in(request, cookie, counted=not open_to_all)
            except Unauthorized:
                if not open_to_all:
                    raise
        elif not open_to_all:
            return await self.proven(request, lambda: shown(""))
        csrf.check_host(request, self._settings.reached_at)
        return READER

    async def _by_header(self, request: Request, header: str) -> Principal:
        name, now_s = hashlib.sha256(header.encode()).digest(), time.monotonic()
        good = self._good.get(name)
        if good is None or not await self._still(good, now_s):
            if len(self._good) >= _REMEMBERED:
                self._good.clear()
            self._good[name] = good = await self._look_up(request, lambda: shown(header))
        now = self._now + timedelta(seconds=now_s - self._checked_s)
        await self._note(good.principal, now, now_s)
        return good.principal

    async def _still(self, good: _Good, now_s: float) -> bool:
        """Return True if a token that was good has not been ended since, nor expired."""
        if now_s - self._checked_s >= _LOOK_S:
            self._checked_s = now_s
            changes, self._now = await self._database.run(_changes, write=False)
            self._changes = max(changes, self._changes)
        return good.changes == self._changes and (
            good.expires_at is None or good.expires_at > self._now
        )

    async def proven(self, request: Request, show: Callable[[], Token]) -> Principal:
        """Find out whose token ``show`` gives.

        The failure of a token that has ended counts against the token. All others count against
        the request's address, and however many there are, a good token from there passes.

        Raises:
            Unauthorized: it is not good.
            TooMany: the token, or the address, sends too many requests.
        """
        good = await self._look_up(request, show)
        await self._note(good.principal, self._now, time.monotonic())
        return good.principal

    async def _look_up(self, request: Request, show: Callable[[], Token]) -> _Good:
        with self.trying(request) as wait_s:
            given = show()
            if wait_s and not await self._is_ours(given):
                raise self.too_many(wait_s)
            verify = partial(self._verify, given)
            token, changes, self._now = await self._database.run(verify, write=False)
            self._changes, self._checked_s = max(changes, self._changes), time.monotonic()
        return _Good(Principal.of(token), token.expires_at, changes)

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
            name, sentence = address, _FAILURES
            if isinstance(fault, token_store.Ended):
                name, sentence = fault.token_id, _ENDED
            now_s = time.monotonic()
            if wait_s := self._failures.wait_s(name, now_s):
                raise TooMany(sentence, ceil(wait_s)) from None
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
        self._looked_s = self._listed_s = self._checked_s = -_LOOK_S

    async def _signed_in(self, request: Request, cookie: str, *, counted: bool) -> Principal:
        """Return the principal of the session that a cookie belongs to.

        A change must come from a page of this service and carry the proof of its session. A session
        that is over is a failure to be ``counted`` where nothing goes without one.
        """
        with self.trying(request) if counted else nullcontext():
            token, now = await self._database.run(partial(self._find, cookie), write=False)
        request.state.proof = sessions.proof_of(self.key, cookie)
        if request.method not in SAFE:
            csrf.check_origin(request)
            if not sessions.proves(self.key, cookie, request.headers.get(csrf.PROOF, "")):
                raise csrf.foreign()
        principal = Principal.of(token)
        await self._note(principal, now, time.monotonic())
        return principal

    def _find(self, cookie: str, session: Session) -> tuple[TokenView, datetime]:
        now = now_of(session)
        return sessions.find(session, self.key, cookie, now), now

    def _verify(self, given: Token, session: Session) -> tuple[TokenView, int, datetime]:
        # The changes first: a token that is ended after they were counted is looked up again.
        changes, now = _changes(session)
        return token_store.verify(session, self.key, given, now), changes, now

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

    async def _note(self, principal: Principal, now: datetime, now_s: float) -> None:
        """Count a request of a token, and note its use.

        Raises:
            TooMany: the token sends too many.
        """
        token_id = principal.token_id or ""
        if wait_s := self._requests.wait_s(token_id, now_s):
            raise TooMany(_REQUESTS, ceil(wait_s))
        self._requests.take(token_id, now_s)
        if now_s - self._touched.get(token_id, -_TOUCH_S) >= _TOUCH_S:
            self._touched[token_id] = now_s
            self._used[token_id] = now
        if self._used and now_s - self._wrote_s >= _WRITE_S:
            await self._write_uses(now_s)  # whoever looks at the tokens sees their latest use

    async def _write_uses(self, now_s: float) -> None:
        used, self._used, self._wrote_s = self._used, {}, now_s
        try:
            await self._database.run(lambda session: token_store.touch(session, used), write=True)
        except (DBAPIError, ServiceError) as error:  # a note; whoever asks shall not miss it
            log.warning("the use of %d tokens could not be noted: %s", len(used), error)


def _changes(session: Session) -> tuple[int, datetime]:
    return token_store.changes(session), now_of(session)


def _refusal(principal: Principal, needs: Permission) -> str:
    kinds = " or ".join(kind.value for kind, may in MAY.items() if needs in may)
    return (
        f"A token of the kind {principal.kind} may not do this; it takes one of the kind {kinds}."
    )


def shown(header: str) -> Token:
    """Read the token in a request's Authorization header; nowhere else is one looked for.

    Raises:
        Unauthorized: there is none, or it is mistyped.
    """
    if header[: len(_BEARER)].lower() != _BEARER:
        raise Unauthorized(MISSING)
    return read(header[len(_BEARER) :])


def read(text: str) -> Token:
    """Read a token that somebody gave.

    Raises:
        Unauthorized: it is mistyped, or an enrolment code.
    """
    try:
        token = token_format.read(text.strip())
    except Mistyped:
        raise Unauthorized(_MISTYPED) from None
    if token.kind in _CODES:
        raise Unauthorized(_CODES[token.kind])
    return token
