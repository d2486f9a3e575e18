"""The service on a real socket, in a thread of the test's own process."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from sqlalchemy import text

from service.app import create_app
from service.auth import token_store
from service.auth.token_store import TokenRequest
from service.database.session import now_of
from service.http.server import Connection, Server, configuration, listen
from service.models import Base
from service.schemas.access import TokenKind
from service.settings import Settings


@dataclass(frozen=True)
class Served:
    """A running service."""

    app: FastAPI
    server: Server
    port: int

    def wait_until_held(self, least_b: int, most_b: int) -> None:
        """Wait until the bodies that the service holds have so many bytes together."""
        wait_until(lambda: least_b <= self.held_b() <= most_b)

    def held_b(self) -> int:
        """How many bytes the bodies hold that are being read or worked on."""
        return int(self.app.state.bodies.held_b)

    def answers_b(self) -> int:
        """How many bytes large answers have that clients have not taken."""
        return int(self.app.state.answers.held_b)

    def wait_until_alone(self) -> None:
        """Wait until the service has ended every connection."""
        wait_until(lambda: not self.server.server_state.connections)

    def connections(self) -> list[Connection]:
        """The service's side of every connection."""
        return [one for one in self.server.server_state.connections if isinstance(one, Connection)]

    def connect(self, receive_b: int | None = None, source: str = "127.0.0.1") -> socket.socket:
        """Open a connection from an address, with a small receive buffer if one is asked for."""
        connection = socket.socket()
        connection.bind((source, 0))
        if receive_b is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_b)
        connection.settimeout(5)
        connection.connect(("127.0.0.1", self.port))
        return connection

    def token(self, kind: str, name: str = "somebody") -> str:
        """Make a token, as the command line does; gives its text."""
        request = TokenRequest(kind=TokenKind(kind), name=name)
        state = self.app.state
        with state.database.writing() as session:
            key, now = state.authenticator.key, now_of(session)
            return token_store.create(session, key, request, now, None).token

    def digest(self) -> str:
        """Names the content of all tables."""
        sha256 = hashlib.sha256()
        with self.app.state.database.reading() as session:
            for table in Base.metadata.sorted_tables:
                rows = session.execute(text(f"SELECT * FROM {table.name}")).all()
                sha256.update(f"{table.name}{sorted(map(repr, rows))}".encode())
        return sha256.hexdigest()


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline, "what was waited for does not come"
        time.sleep(0.01)


@contextmanager
def serving(database_url: str, **settings: Any) -> Iterator[Served]:
    """Serve as the service's own process does, until the block ends."""
    chosen = Settings(**{"database_url": database_url, "background": False} | settings)
    app = create_app(chosen)
    listener = listen(chosen.host, 0)
    server = Server(configuration(app, chosen))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server ended at its start"
            time.sleep(0.01)
        yield Served(app, server, listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
