"""This machine's own token on the command line: for `up`, its workers, and a link for a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import local_service
from cli.database import opened
from cli.exits import Exit, Stop
from service.auth import access_mode, local_token
from service.database.session import Database
from service.settings import Access, Settings


def prepare(settings: Settings) -> Path | None:
    """Make sure that the state folder holds a good token; None if the service asks for none."""
    with _opened(settings) as database:
        access_mode.check(database, settings)
        if settings.access is Access.OPEN:
            return None
        return local_token.prepare(database, settings).absolute()


def link(settings: Settings, url: str) -> str:
    """Make a link to the service at ``url`` that signs in there, once.

    Raises:
        Stop: it cannot be made.
    """
    if settings.access is Access.OPEN:
        raise Stop("The service asks for no token (THROUGHLINE_ACCESS=open): nobody signs in.")
    with _opened(settings) as database:
        return url + local_token.link(database, settings)


def read(path: Path | None) -> str:
    """The token in a file; nothing if there is no file."""
    return "" if path is None else path.read_text(encoding="utf-8").strip()


@contextmanager
def _opened(settings: Settings) -> Iterator[Database]:
    try:
        with opened(settings.url) as database:
            yield database
    except OSError as error:
        path = local_service.token_file(settings.state_dir)
        raise Stop(f"{path} cannot be used: {error.strerror}.", Exit.AWAY) from error
