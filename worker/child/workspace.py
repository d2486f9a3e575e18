"""A folder of one job's own, for its children's temporary files and compiler caches."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from worker.settings import Settings, child_environment

PREFIX = "tl-"
"""Short, so that socket paths below it stay under 108 bytes."""
_PRIVATE = {"TMPDIR": "tmp", "TORCHINDUCTOR_CACHE_DIR": "ind", "TRITON_CACHE_DIR": "tri"}
_COMPILED = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@contextmanager
def workspace() -> Iterator[Path]:
    """Make the folder; it is removed at the end.

    Raises:
        OSError: it cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield folder
    finally:
        remove(folder.parent, folder.name)


def remove_leftover(folder: Path) -> bool:
    """Remove the folder of a worker that died; False if the path is no such folder's.

    The path was read from a file, so only a workspace in today's temporary folder is removed.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    if folder.parent.resolve() != temporary or not folder.name.startswith(PREFIX):
        return False
    remove(temporary, folder.name)
    return True


def remove(inside: Path, name: str) -> None:
    """Delete ``name``, which lies in the folder ``inside``, as far as that can be done.

    Nothing outside of it is touched: no link is followed and no mount is entered. Folders within
    folders are moved up before they are emptied: thousands of levels are longer than a path may be
    and deeper than Python recurses.

    Raises:
        ValueError: ``name`` is a path, and no name of something in ``inside``.
    """
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is no name of a folder to remove.")
    with suppress(OSError), _opened(inside) as parent:
        try:
            with _opened(name, parent) as top:
                _flatten(top)
        except NotADirectoryError:  # a file or a link, which is itself removed
            os.unlink(name, dir_fd=parent)
        else:
            os.rmdir(name, dir_fd=parent)


@contextmanager
def _opened(folder: str | Path, within: int | None = None) -> Iterator[int]:
    """Open a folder; one ``within`` another is made ours to change, and must lie on its mount.

    Raises:
        NotADirectoryError: it is none, or a link.
        OSError: it cannot be opened, or something is mounted there.
    """
    if within is None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    else:
        handle = _claimed(str(folder), within)
    try:
        yield handle
    finally:
        os.close(handle)


def _claimed(name: str, within: int) -> int:
    """Open the folder ``name`` of an open folder, whatever its permissions are."""
    path = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        if _mount(path) != _mount(within):
            raise OSError(errno.EXDEV, "Something is mounted there", name)
        os.chmod(f"/proc/self/fd/{path}", 0o700)  # noqa: PTH101 - by name, a link might be followed
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=path)
    finally:
        os.close(path)


def _mount(handle: int) -> str:
    info = Path(f"/proc/self/fdinfo/{handle}").read_text(encoding="ascii")
    return next(line for line in info.splitlines() if line.startswith("mnt_id"))


def _flatten(top: int) -> None:
    """Empty the folder that is open as ``top``; what refuses to go is left."""
    count = 0
    waiting = _empty(top)
    while waiting:
        name = waiting.pop()
        with suppress(OSError):
            with _opened(name, top) as inner:
                for below in _empty(inner):
                    count += 1
                    moved = f"{PREFIX}{os.getpid()}-{count}"
                    with suppress(OSError):
                        os.rename(below, moved, src_dir_fd=inner, dst_dir_fd=top)
                        waiting.append(moved)
            os.rmdir(name, dir_fd=top)


def _empty(folder: int) -> list[str]:
    """Delete all files of an open folder; the names of its folders, which may then be moved."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=folder)
                    continue
                with _opened(entry.name, folder):  # to be moved it must be writable
                    folders.append(entry.name)
    return folders


def environment_in(folder: Path, settings: Settings, caches: Path | None = None) -> dict[str, str]:
    """A child's environment: the first replicate of a job compiles, the others reuse.

    Args:
        folder: of the child's own.
        settings: of this worker.
        caches: where compiled code lies, if not there.
    """
    places = {variable: folder / name for variable, name in _PRIVATE.items()}
    if caches is not None:
        places |= {variable: caches / _PRIVATE[variable] for variable in _COMPILED}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    return child_environment(settings) | {
        variable: str(place) for variable, place in places.items()
    }
