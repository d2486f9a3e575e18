"""Artifacts in a folder: each a file that is named by its digest and never changed."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from service.schemas.errors import ArtifactsUnavailable

_DIGEST = re.compile(r"[0-9a-f]{64}")


class FolderStore:
    """Artifacts under ``folder``, in subfolders by the first two digits of their digests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, digest: str, body: bytes) -> None:
        """Write a file beside its place, sync it, and move it there.

        Raises:
            ArtifactsUnavailable: the file system refuses, or is full.
        """
        place = self._place(digest)
        with _told(self.folder, "written"):
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as draft:
                try:
                    draft.write(body)
                    draft.flush()
                    os.fsync(draft.fileno())
                    Path(draft.name).replace(place)
                except OSError:
                    Path(draft.name).unlink()
                    raise
            sync(place.parent)

    def get(self, digest: str) -> bytes | None:
        """Read a file.

        Raises:
            ArtifactsUnavailable: it is there and cannot be read.
        """
        with _told(self.folder, "read"), suppress(FileNotFoundError):
            return self._place(digest).read_bytes()
        return None

    def address(self, digest: str) -> None:
        """None: a folder is on no network."""

    def older_than(self, age: timedelta) -> Iterator[str]:
        """Name what was not put for that long."""
        for path in self._files():
            if _age_s(path) >= age.total_seconds():
                yield path.name

    def delete(self, digest: str, age: timedelta) -> None:
        """Move a file aside and delete it, unless it was put again within that age.

        Aside first: what is put meanwhile is a new file in its place.
        """
        place = self._place(digest)
        aside = place.with_suffix(".deleted")
        with _told(self.folder, "deleted"), suppress(FileNotFoundError):
            place.replace(aside)
            if _age_s(aside) < age.total_seconds():
                aside.replace(place)
            else:
                aside.unlink()

    def copy_to(self, other: FolderStore) -> int:
        """Put every artifact into another folder that lacks it; the number of those copied.

        Within a file system these are links, which take no room: no file is ever changed.
        """
        count = 0
        for path in self._files():
            place = other._place(path.name)
            if not place.exists():
                self._copy(path, other)
                count += 1
        return count

    def _copy(self, path: Path, other: FolderStore) -> None:
        place = other._place(path.name)
        with _told(other.folder, "written"):
            place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, place)
        except OSError:  # another file system, or one without links
            other.put(path.name, path.read_bytes())

    def _files(self) -> Iterator[Path]:
        yield from (
            path for path in sorted(self.folder.glob("??/*")) if _DIGEST.fullmatch(path.name)
        )

    def _place(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest


@contextmanager
def _told(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        sentence = f"The artifacts in {folder.name} cannot be {what} ({error.strerror})."
        raise ArtifactsUnavailable(sentence) from error


def _age_s(path: Path) -> float:
    """Seconds since a file was written; 0 if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def sync(place: Path) -> None:
    """Have a file's content, or a folder's names, on the disk."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
