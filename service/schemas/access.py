"""Tokens, as the API answers with them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from service.schemas.document import Document


class TokenKind(StrEnum):
    """Kinds of tokens."""

    READ = "read"
    SUBMIT = "submit"
    WORKER = "worker"
    ADMIN = "admin"


class TokenView(Document):
    """The facts about a token that may be shown."""

    id: str
    kind: TokenKind
    name: str
    project: str | None
    """The only one whose things it sees and makes; null: all."""
    state: Literal["live", "expired", "revoked"]
    created_at: datetime
    created_by: str | None
    """The id of the token that made it; null: the command line beside the database."""
    expires_at: datetime | None
    last_used_at: datetime | None
    """To the minute."""
    rotated_at: datetime | None
    revoked_at: datetime | None


class NewToken(TokenView):
    """A token that was just made or renewed, told this once."""

    token: str = Field(repr=False)


class Problem(Document):
    """An error as RFC 9457 has it."""

    type: str
    """A short stable word for programs, such as ``fenced``."""
    title: str
    status: int
    detail: str
    """One sentence for a person, which says what to do."""
    errors: list[dict[str, object]] | None = None
    """For ``invalid``: the type, place and message of each fault, never the value."""
