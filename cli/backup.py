"""Copies a database and brings it back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cli.exits import Exit, Stop
from service.errors import ServiceError
from service.maintenance import backup as copying
from service.settings import Settings


def backup(url: str | None, state_dir: Path, to: Path) -> None:
    """Copy the database to ``to``.

    Raises:
        Stop: it cannot be done.
    """
    _told(lambda: copying.backup(_url(url, state_dir), to))


def restore(url: str | None, state_dir: Path, source: Path) -> None:
    """Make the database out of ``source``.

    Raises:
        Stop: it cannot be done.
    """
    _told(lambda: copying.restore(_url(url, state_dir), source))


def _url(url: str | None, state_dir: Path) -> str:
    return url or Settings(state_dir=state_dir).url


def _told(step: Callable[[], None]) -> None:
    try:
        step()
    except copying.BackupRefused as error:
        raise Stop(error.detail) from error
    except ServiceError as error:
        raise Stop(error.detail, Exit.AWAY) from error
