"""A folder of one job's own, for its children's temporary files and compiler caches."""

from __future__ import annotations

import os
import shutil
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
        remove(folder)


def remove(folder: Path) -> None:
    """Delete ``folder`` whatever a child made of it, as far as that can be done; never raises.

    Folders within folders are moved up before they are emptied: thousands of levels are longer
    than a path may be and deeper than Python recurses.
    """
    with suppress(OSError):
        folder.chmod(0o700)
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    with suppress(OSError):
        _flatten(top)
    os.close(top)
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def _flatten(top: int) -> None:
    """Empty the folder that is open as ``top``; what refuses to go is left."""
    count = 0
    waiting = _empty(top)
    while waiting:
        name = waiting.pop()
        with suppress(OSError):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                for below in _empty(inner):
                    count += 1
                    moved = f"{PREFIX}{os.getpid()}-{count}"
                    with suppress(OSError):
                        os.rename(below, moved, src_dir_fd=inner, dst_dir_fd=top)
                        waiting.append(moved)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _empty(folder: int) -> list[str]:
    """Delete all files of an open folder; the names of its folders."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                    os.chmod(entry.name, 0o700, dir_fd=folder)  # to be moved it must be writable
                else:
                    os.unlink(entry.name, dir_fd=folder)
    return folders


def environment_in(folder: Path, settings: Settings, caches: Path | None = None) -> dict[str, str]:
    """A child's environment: the first replicate of a job compiles, the others reuse.

    Args:
        folder: of the child's own.
        settings: of this worker.
        caches: where compiled code lies, if not there.
    """
    own = {variable: folder / name for variable, name in _PRIVATE.items()}
    if caches is not None:
        own |= {variable: caches / _PRIVATE[variable] for variable in _COMPILED}
    for place in own.values():
        place.mkdir(parents=True, exist_ok=True)
    return child_environment(settings) | {variable: str(place) for variable, place in own.items()}
