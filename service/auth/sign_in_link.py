"""Links that sign in on the dashboard once, for whoever has the service's machine.

A link carries a code in place of the token, which would stay in a browser's history for good.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from service.auth import single_use, token_format, token_store
from service.auth.signing_key import Key
from service.models import TokenRow
from service.schemas.access import TokenView
from service.schemas.errors import Unauthorized

LASTS = timedelta(minutes=15)
"""Long enough for a first suite to be measured on a CPU, which takes some five minutes."""
PATH = "/sign-in?code="
_BAD = "This link is not good any more: each signs in once, within 15 minutes."


def create(session: Session, key: Key, token_id: str, now: datetime) -> str:
    """Make a link that signs in as the holder of a token; gives its path on the service."""
    _, code = single_use.make(session, key, token_format.SIGN_IN, LASTS, now, token_id)
    return PATH + code


def redeem(session: Session, key: Key, code: str, now: datetime) -> TokenView:
    """Use the code of a link up; gives the token that it signs in with.

    Raises:
        Unauthorized: it is mistyped, unknown, used or too old, or the token is good no more.
    """
    row = single_use.find(session, key, token_format.SIGN_IN, code)
    if row is None or row.created_by is None:
        raise Unauthorized(_BAD)
    token = token_store.view(session.get_one(TokenRow, row.created_by), now)
    if token.state != "live" or not single_use.use(session, row, token.id, now):
        raise Unauthorized(_BAD)
    return token
