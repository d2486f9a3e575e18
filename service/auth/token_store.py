"""Keeps tokens: makes, finds, renews and ends them. What is handed out is never stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, FiniteFloat, model_validator
from sqlalchemy import Row, Table, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import Contract, Name
from service.auth import token_format
from service.auth.permissions import BOUND
from service.auth.signing_key import Key
from service.database.session import rows
from service.models import TokenRow
from service.schemas import errors
from service.schemas.access import NewToken, TokenKind, TokenView

_TOKENS = cast(Table, TokenRow.__table__)
# Made once: every request asks.
_SHOWN = select(_TOKENS).where(_TOKENS.c.id == bindparam("shown"))
_CHANGES = select(func.coalesce(func.sum(_TOKENS.c.changes), 0)).where(_TOKENS.c.changes > 0)
TOUCHED_EVERY = timedelta(minutes=1)
SHORTEST_S, LONGEST_S = 60, 10 * 366 * 86_400
"""Seconds that a token may last."""
Lasting = Annotated[FiniteFloat, Field(strict=True, ge=SHORTEST_S, le=LONGEST_S)]
NONE = "There is no such token; GET /api/v1/tokens, or `throughline token list`, lists them."

LOCAL = "local"
"""The name of the token of a machine's own administrator, which `local_token` keeps in a file."""
FOR_ALL = (
    "a token of the kind {kind} is for all projects: workers measure for all, administrators rule "
    "all"
)


class TokenRequest(Contract):
    """A token to be made."""

    kind: TokenKind
    name: Name
    """What it is for; of a worker's token the worker's name, as which alone it may act."""
    expires_in_s: Lasting | None = None
    """Null: until it is revoked."""
    project: Name | None = None
    """The only one whose things it sees and makes; null: all. Of kind read and submit alone."""

    @model_validator(mode="after")
    def _bound(self) -> Self:
        if self.project is not None and self.kind not in BOUND:
            raise ValueError(FOR_ALL.format(kind=self.kind))
        if (self.kind, self.name) == (TokenKind.ADMIN, LOCAL):
            raise ValueError(f"the name {LOCAL} is kept for the token of this machine itself")
        return self


def create(
    session: Session, key: Key, request: TokenRequest, now: datetime, by: str | None
) -> NewToken:
    """Make a token."""
    made = token_format.new(request.kind)
    lasts = request.expires_in_s
    row = TokenRow(
        id=made.id,
        kind=request.kind,
        name=request.name,
        project=request.project,
        digest=token_format.digest(key.value, made),
        key_id=key.id,
        created_at=now,
        created_by=by,
        expires_at=None if lasts is None else now + timedelta(seconds=lasts),
        changes=0,
    )
    session.add(row)
    session.flush()
    return _new_token(row, made, now)


def create_local(session: Session, key: Key, now: datetime) -> NewToken:
    """Make the token of the machine's own administrator; it does not close reading to others."""
    request = TokenRequest.model_construct(
        kind=TokenKind.ADMIN, name=LOCAL, expires_in_s=None, project=None
    )
    return create(session, key, request, now, None)


def rotate(session: Session, key: Key, token_id: str, now: datetime) -> NewToken:
    """Give a token another secret; the old one is good for nothing from then on.

    Raises:
        NotFound: there is no such token.
        Conflict: it is revoked or expired.
    """
    row = _get(session, token_id)
    if _state(row, now) != "live":
        raise errors.Conflict(f"This token is {_state(row, now)}; make another one.")
    made = token_format.renewed(row.kind, row.id)
    row.digest, row.key_id, row.rotated_at = token_format.digest(key.value, made), key.id, now
    row.changes += 1
    session.flush()
    return _new_token(row, made, now)


def revoke(session: Session, token_id: str, now: datetime) -> TokenView:
    """End a token for good; one that is revoked already stays as it is.

    Raises:
        NotFound: there is no such token.
    """
    row = _get(session, token_id)
    if row.revoked_at is None:
        row.revoked_at = now
        row.changes += 1
    session.flush()
    return view(row, now)


def every(session: Session, now: datetime) -> list[TokenView]:
    """All tokens, the newest first."""
    order = (TokenRow.created_at.desc(), TokenRow.id)
    return [view(row, now) for row in session.scalars(select(TokenRow).order_by(*order))]


def any_admin(session: Session) -> bool:
    """Return True if somebody was ever made an administrator, even if the token was revoked.

    The machine's own token does not count: `throughline up` makes it for whoever starts it.
    """
    somebodys = (TokenRow.kind == TokenKind.ADMIN, TokenRow.name != LOCAL)
    return session.execute(select(TokenRow.id).where(*somebodys).limit(1)).first() is not None


def changes(session: Session) -> int:
    """Count the rotations and revocations of all tokens ever: the same number, nothing has ended.

    A clock would not do: of two changes the later one may be committed first.
    """
    return int(session.execute(_CHANGES).scalar_one())


def is_live(session: Session, token_id: str, now: datetime) -> bool:
    """Return True if the token exists and is neither revoked nor expired."""
    row = session.get(TokenRow, token_id)
    return row is not None and _state(row, now) == "live"


def has_worker(session: Session, name: str, now: datetime) -> bool:
    """Return True if a live worker token has this ``name``."""
    named = select(TokenRow).where(TokenRow.kind == TokenKind.WORKER, TokenRow.name == name)
    return any(_state(row, now) == "live" for row in session.scalars(named))


class Ended(errors.Unauthorized):
    """A token of this service, with its right secret, that is revoked or expired."""

    def __init__(self, detail: str, token_id: str) -> None:
        super().__init__(detail)
        self.token_id = token_id


def digests(session: Session) -> dict[str, str]:
    """Return the stored digest of each token, by token id."""
    return {row.id: row.digest for row in session.execute(select(TokenRow.id, TokenRow.digest))}


def administrator(session: Session, key: Key, shown: str, now: datetime) -> str | None:
    """Return the id of the token that is shown, if it is a good one of an administrator."""
    try:
        token = verify(session, key, token_format.read(shown), now)
    except (token_format.Mistyped, errors.Unauthorized):
        return None
    return token.id if token.kind is TokenKind.ADMIN else None


def verify(session: Session, key: Key, shown: token_format.Token, now: datetime) -> TokenView:
    """The token that somebody shows, if it is good now.

    Raises:
        Ended: it is revoked or expired.
        Unauthorized: it is not known, or its secret is wrong.
    """
    row = session.execute(_SHOWN, {"shown": shown.id}).first()
    if row is not None and row.key_id != key.id:
        raise errors.Unauthorized(
            "This token was made with another server key: bring access.key back into the "
            "service's state folder, or make a new token where the service runs."
        )
    if row is None or not token_format.matches(key.value, shown, row.digest):
        raise errors.Unauthorized(
            "This token is not known here, or was rotated; check that it is the newest one and "
            "of this service."
        )
    token = view(row, now)
    if token.state != "live":
        sentence = f"This token is {token.state}; ask an administrator for another one."
        raise Ended(sentence, token.id)
    return token


def touch(session: Session, used: Mapping[str, datetime]) -> None:
    """Note when tokens were used, by id, unless that was noted within the minute before."""
    for token_id, at in sorted(used.items()):  # in one order, so that no two wait in a ring
        long_ago = or_(TokenRow.last_used_at.is_(None), TokenRow.last_used_at < at - TOUCHED_EVERY)
        changed = update(TokenRow).where(TokenRow.id == token_id, long_ago)
        rows(session, changed.values(last_used_at=at))


def view(row: TokenRow | Row[Any], now: datetime) -> TokenView:
    """Show a row, without what is hashed."""
    return TokenView.of(row, state=_state(row, now))


def _state(row: TokenRow | Row[Any], now: datetime) -> Literal["live", "expired", "revoked"]:
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at is not None and row.expires_at <= now else "live"


def _get(session: Session, token_id: str) -> TokenRow:
    row = session.get(TokenRow, token_id, with_for_update=True)
    if row is None:
        raise errors.NotFound(NONE)
    return row


def _new_token(row: TokenRow, made: token_format.Token, now: datetime) -> NewToken:
    return NewToken(token=made.text, **view(row, now).model_dump())
