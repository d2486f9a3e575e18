"""People who have signed in on the dashboard: a row for each, which a cookie finds.

The cookie's value is kept as a keyed hash alone, like a token. What a session may do, and whether
it is good, is asked of its token with each request: one that is revoked, expired or rotated since
ends all that began with it.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.orm import Session

from service.auth import token_store
from service.auth.signing_key import Key
from service.models import BrowserSession, TokenRow
from service.schemas.access import TokenView
from service.schemas.errors import Unauthorized

LASTS = timedelta(hours=12)
"""A working day; then one signs in again."""
_OVER = "You are signed in no more: sign in again."


def begin(session: Session, key: Key, token_id: str, now: datetime) -> str:
    """Sign the holder of a token in; gives the cookie's value. Forgets sessions that are over."""
    session.execute(delete(BrowserSession).where(BrowserSession.expires_at <= now))
    cookie = secrets.token_hex(32)
    session.add(
        BrowserSession(
            id=_digest(key, cookie), token_id=token_id, created_at=now, expires_at=now + LASTS
        )
    )
    session.flush()
    return cookie


def find(session: Session, key: Key, cookie: str, now: datetime) -> TokenView:
    """Return the token behind the session that a cookie belongs to.

    Raises:
        Unauthorized: the session is over or was never begun, or its token is no longer good.
    """
    row = session.get(BrowserSession, _digest(key, cookie))
    if row is None or row.expires_at <= now:
        raise Unauthorized(_OVER)
    token = token_store.view(session.get_one(TokenRow, row.token_id), now)
    rotated = token.rotated_at is not None and token.rotated_at > row.created_at
    if rotated or token.state != "live":
        raise Unauthorized("Your token is no longer good: sign in again with another one.")
    return token


def end(session: Session, key: Key, cookie: str) -> None:
    """Sign out; a session that is over stays so."""
    session.execute(delete(BrowserSession).where(BrowserSession.id == _digest(key, cookie)))


def proof_of(key: Key, cookie: str) -> str:
    """Return the proof that a change needs beside the cookie; only our pages can know it."""
    return hmac.digest(key.value, b"proof:" + cookie.encode(), "sha256").hex()


def proves(key: Key, cookie: str, shown: str) -> bool:
    """Return True if ``shown`` is the proof of the cookie's session."""
    return hmac.compare_digest(proof_of(key, cookie).encode(), shown.encode())


def _digest(key: Key, cookie: str) -> str:
    return hmac.digest(key.value, b"session:" + cookie.encode(), "sha256").hex()
