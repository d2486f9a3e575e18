"""The interface of a store of artifacts, and the store that the settings name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from service.database.engine import parse
from service.history.artifacts.bucket import SCHEME, BucketStore
from service.history.artifacts.folder import FolderStore
from service.settings import Settings


class ArtifactStore(Protocol):
    """Keeps bodies under their SHA-256; each method may raise `ArtifactsUnavailable`."""

    def put(self, digest: str, body: bytes) -> None:
        """Keep a body; it is on the disk when this returns. Keeping it again renews its age."""

    def get(self, digest: str) -> bytes | None:
        """Give a body; None if it is not there."""

    def address(self, digest: str) -> str | None:
        """An address at which a reader may fetch it for some minutes; None: it has none."""

    def older_than(self, age: timedelta) -> Iterator[str]:
        """Name what was not put for that long."""

    def delete(self, digest: str, age: timedelta) -> None:
        """Delete an artifact, unless it was put again within that age."""


def store_of(settings: Settings, url: str | None = None) -> FolderStore | BucketStore:
    """The store of a database: as the settings name it, or the folder beside the database.

    ``url`` is a database other than that of the settings, such as a backup.

    Raises:
        ArtifactsUnavailable: the settings name a bucket, and the library for it is not installed.
    """
    named = settings.artifacts if url in (None, settings.url) else None
    if named is None:
        return FolderStore(beside(url or settings.url, settings.state_dir))
    return BucketStore(named) if named.startswith(SCHEME) else FolderStore(Path(named))


def beside(url: str, state_dir: Path) -> Path:
    """The folder beside a SQLite file, with its name; for PostgreSQL one in the state folder."""
    parsed = parse(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return state_dir / "artifacts"
    return Path(f"{parsed.database.removeprefix('file:')}.artifacts")
