"""An application that asks for tokens, and tokens of every kind for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import update

from service.app import create_app
from service.auth import token_store
from service.auth.token_store import TokenRequest
from service.database.session import now_of
from service.models import TokenRow
from service.schemas.access import NewToken, TokenKind
from service.settings import Access, Settings


class Doorman:
    """The whole application over HTTP, with tokens in force, and whoever may come in."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        app: Any = client.app
        self.database = app.state.database
        self.authenticator = app.state.authenticator

    def make(
        self,
        kind: str,
        name: str = "somebody",
        lasts_s: float | None = None,
        project: str | None = None,
    ) -> NewToken:
        """Make a token, as the command line does."""
        request = TokenRequest(
            kind=TokenKind(kind), name=name, expires_in_s=lasts_s, project=project
        )
        with self.database.writing() as session:
            return token_store.create(
                session, self.authenticator.key, request, now_of(session), None
            )

    def token(self, kind: str, name: str = "somebody", project: str | None = None) -> str:
        """A token's text."""
        return self.make(kind, name, project=project).token

    def local(self) -> str:
        """The token of the machine's own administrator."""
        with self.database.writing() as session:
            return token_store.create_local(session, self.authenticator.key, now_of(session)).token

    def expired(self, kind: str = "admin") -> str:
        """A token that was good until a moment ago."""
        made = self.make(kind)
        with self.database.writing() as session:
            past = now_of(session) - timedelta(seconds=1)
            session.execute(update(TokenRow).where(TokenRow.id == made.id).values(expires_at=past))
        return made.token

    def revoked(self, kind: str = "admin") -> str:
        """A token that was ended."""
        made = self.make(kind)
        with self.database.writing() as session:
            token_store.revoke(session, made.id, now_of(session))
        return made.token

    def ask(self, method: str, path: str, token: str | None = None, **what: Any) -> Any:
        """Send a request with a token."""
        headers = dict(what.pop("headers", {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.client.request(method, path, headers=headers, **what)


@dataclass
class Clock:
    """A monotonic clock that goes only when it is told to; stands in for the module ``time``."""

    now_s: float = 1_000.0

    def monotonic(self) -> float:
        """The time now."""
        return self.now_s


@contextmanager
def guarded(database_url: str, state_dir: Path, **more: Any) -> Iterator[Doorman]:
    """Serve a database to whoever has a token."""
    more.setdefault("access", Access.TOKENS)
    settings = Settings(database_url=database_url, state_dir=state_dir, background=False, **more)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield Doorman(client)
