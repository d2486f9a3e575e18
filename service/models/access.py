"""The tables of access: tokens, enrolments, browser sessions and the audit log."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base, states
from service.schemas.access import TokenKind

_CHANGED = text("changes > 0")


class TokenRow(Base):
    """A token, of which only a keyed hash is kept. Rows are never deleted."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    """Stands in the token, in the open: it finds the row."""
    kind: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(String(64))
    """Of a worker's token: the only worker that may use it."""
    project: Mapped[str | None] = mapped_column(String(64))
    """The only one whose things it is good for; None if it is good for all there is."""
    digest: Mapped[str] = mapped_column(String(64))
    """HMAC-SHA-256 of the whole token with the server's key."""
    key_id: Mapped[str] = mapped_column(String(16))
    """Which key that was."""
    created_at: Mapped[datetime]
    created_by: Mapped[str | None] = mapped_column(String(16))
    """The token that made this one; None for the command line beside the database."""
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    """To the minute."""
    rotated_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    changes: Mapped[int] = mapped_column(server_default="0")
    """Rotations and revocations; services that remember good tokens look for a larger sum."""
    __table_args__ = (
        states("kind", TokenKind),
        Index(None, "changes", sqlite_where=_CHANGED, postgresql_where=_CHANGED),
    )


class EnrolmentRow(Base):
    """A code that one worker may turn into a token, of which only a keyed hash is kept."""

    __tablename__ = "enrolments"
    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    worker: Mapped[str | None] = mapped_column(String(64))
    """The only worker that may use it; None if any may."""
    created_at: Mapped[datetime]
    created_by: Mapped[str | None] = mapped_column(String(16))
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]
    token_id: Mapped[str | None] = mapped_column(ForeignKey("tokens.id"))
    """What came of it."""


class BrowserSession(Base):
    """Somebody who has signed in on the dashboard with a token."""

    __tablename__ = "browser_sessions"
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """A keyed hash of the cookie's value."""
    token_id: Mapped[str] = mapped_column(ForeignKey("tokens.id"))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class AuditEvent(Base):
    """One thing that somebody did. A trigger lets the log only grow."""

    __tablename__ = "audit_events"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Time-ordered, so that it also pages."""
    at: Mapped[datetime]
    token_id: Mapped[str | None] = mapped_column(String(16))
    """None where no token was asked for: an open service, or the command line beside it."""
    actor: Mapped[str] = mapped_column(String(100))
    """The token's kind and name then, or where the order came from."""
    action: Mapped[str] = mapped_column(String(100))
    """Method and template of the call, or the command."""
    object: Mapped[str] = mapped_column(Text)
    """What it was done to: the path, and the id of what was made."""
