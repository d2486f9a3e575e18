"""The token of a machine's own administrator: who can read its file has the machine's service."""

from __future__ import annotations

from pathlib import Path

from benchmarks import local_service
from service.auth import audit, sign_in_link, signing_key, token_store
from service.auth.principal import Principal
from service.database.session import Database, alone, now_of
from service.settings import Settings

_WHO = Principal("this machine")


def prepare(database: Database, settings: Settings) -> Path:
    """Make sure that the state folder holds a good token of an administrator; gives its path.

    Only the owner of the file may read it.

    Raises:
        DatabaseUnavailable: the server's key, or the database, cannot be used.
        OSError: the file cannot be read or written.
    """
    path = local_service.token_file(settings.state_dir)
    if _good(path, database, settings) is None:
        _make(path, database, settings)
    return path


def link(database: Database, settings: Settings) -> str:
    """Make a link that signs in with that token, once; gives its path on the service.

    Raises:
        DatabaseUnavailable: the server's key, or the database, cannot be used.
        OSError: the file of the token cannot be read or written.
    """
    token = _good(prepare(database, settings), database, settings)
    assert token is not None
    with database.writing() as session:
        now = now_of(session)
        path = sign_in_link.create(session, signing_key.of(settings), token, now)
        audit.record(session, _WHO, "token sign-in", f"token {token}", now)
    return path


def _good(path: Path, database: Database, settings: Settings) -> str | None:
    """The id of the token in the file; None unless it is a good one of an administrator."""
    try:
        shown = path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    with database.reading() as session:
        return token_store.administrator(session, signing_key.of(settings), shown, now_of(session))


def _make(path: Path, database: Database, settings: Settings) -> None:
    server_key = signing_key.of(settings)
    with database.writing() as session:
        alone(session, "the token of this machine")  # two who start write one file
        now = now_of(session)
        made = token_store.create_local(session, server_key, now)
        audit.record(session, _WHO, "token create", f"token {made.id}", now)
        signing_key.write_private(path, made.token)
