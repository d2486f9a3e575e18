"""The token with which `throughline up` and its workers speak to its own service."""

from __future__ import annotations

from pathlib import Path

from cli.exits import Exit, Stop
from cli.state import StateFolder
from service.access import audit, key, rules, store, token
from service.access.permissions import Kind
from service.access.principal import Principal
from service.access.store import TokenRequest
from service.access.token import Mistyped
from service.database import Database, now_of
from service.errors import ServiceError, Unauthorized
from service.settings import Settings

_NAME = "local"


def prepare(state: StateFolder, host: str) -> Path | None:
    """Make sure that the state folder holds a good token of an administrator.

    None if the service will ask for no tokens, as on the loopback while nobody has made one.

    Raises:
        Stop: strangers could reach the service and no token is set up, or it cannot be made.
    """
    settings = Settings(state_dir=state.path, host=host)
    database = Database(settings.url)
    try:
        rules.check(database, settings)
        if not rules.in_force(database, settings):
            return None
        if not _is_good(state.token, database, settings):
            _make(state.token, database, settings)
        return state.token.absolute()
    except rules.NobodyMayEnter as error:
        raise Stop(error.detail) from error
    except ServiceError as error:
        raise Stop(error.detail, Exit.AWAY) from error
    except OSError as error:
        sentence = f"{state.token} cannot be written: {error.strerror}."
        raise Stop(sentence, Exit.AWAY) from error
    finally:
        database.close()


def read(path: Path | None) -> str:
    """The token in a file; nothing if there is no file."""
    return "" if path is None else path.read_text(encoding="utf-8").strip()


def _is_good(path: Path, database: Database, settings: Settings) -> bool:
    try:
        shown = token.read(read(path))
        with database.reading() as session:
            found = store.verify(session, key.of(settings), shown, now_of(session))
    except (FileNotFoundError, Mistyped, Unauthorized):
        return False
    return found.kind is Kind.ADMIN


def _make(path: Path, database: Database, settings: Settings) -> None:
    wanted = TokenRequest(kind=Kind.ADMIN, name=_NAME)
    with database.writing() as session:
        now = now_of(session)
        made = store.create(session, key.of(settings), wanted, now, None)
        audit.record(session, Principal("up"), "token create", f"token {made.id}", now)
        key.write_private(path, made.token)
