"""Folders for temporary files of one job, and for code compiled by all replicates of a case."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.contracts import Id, JobSpec
from worker.child import bytecode
from worker.settings import Settings, child_environment

PREFIX = "tl-"
"""Short, so that socket paths below it stay under 108 bytes."""
_PRIVATE = {"TMPDIR": "tmp", "TORCHINDUCTOR_CACHE_DIR": "ind", "TRITON_CACHE_DIR": "tri"}
_BYTECODE = "PYTHONPYCACHEPREFIX"
COMPILED = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""Variables that torch reads when it compiles, not when it is loaded."""


@contextmanager
def workspace(note: Callable[[Path], None] = lambda _: None) -> Iterator[Path]:
    """Make the folder; it is removed at the end.

    ``note`` is told of it before it is there: whoever is killed in between leaves none unnoted.
    """
    folder = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(6)}"
    note(folder)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        remove(folder.parent, folder.name)


def remove_leftover(folder: Path) -> bool:
    """Remove the workspace of a worker that died; False if the path is neither one nor in one.

    The path comes from a file: only a workspace in today's temporary folder is removed. A side of
    a pair that is measured by itself has a folder within it.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    for place in (folder, *folder.parents):
        if place.name.startswith(PREFIX) and place.parent.resolve() == temporary:
            remove(temporary, place.name)
            return True
    return False


def remove(inside: Path, name: str) -> None:
    """Delete ``name``, which lies in the folder ``inside``, as far as possible.

    No link is followed and no mount is entered. Nested folders are moved up before they are
    emptied: thousands of levels are longer than a path may be and deeper than Python recurses.

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
    """Open a folder; one ``within`` another becomes writable, and must lie on the same mount."""
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
    """Empty the folder that is open as ``top``; undeletable entries stay."""
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
    """Delete all files of an open folder; returns the names of its folders, made movable."""
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
    """A child's environment, with its own ``folder`` for temporary files.

    Compiled code lies there too, unless ``caches`` names a folder to share. Bytecode does as well,
    where Python keeps none of torch elsewhere.
    """
    places = {variable: folder / name for variable, name in _PRIVATE.items()}
    environment = child_environment(settings)
    if caches is not None:
        places |= {variable: caches / _PRIVATE[variable] for variable in COMPILED}
        if bytecode.lost() is not None:
            places[_BYTECODE] = caches / "pyc"
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    return environment | {variable: str(place) for variable, place in places.items()}


KEPT_S = 2 * 86_400.0
"""Age after which the caches of an unfinished case are removed."""
REVISION_KEPT_S = 6 * 3_600.0
"""Time since the last pair after which those of a revision's case are: some 100 MB each."""
_OF_REVISION = "revision-"
_BY_SOURCE = 2
"""Length of the names of folders in Inductor's cache that hold kernels, named by their source."""


class Caches:
    """A folder with one folder for each case."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def of(self, group: Id | None, spec: JobSpec) -> Iterator[Path | None]:
        """Yield the cache folder of a case with several replicates, else None; it goes with the
        last."""
        if group is None or spec.protocol.replicates == 1:
            yield None
            return
        self._clear()
        folder = self._folder / group
        if spec.replicate == 1:  # what is there is of an attempt that was lost: begin cold
            remove(self._folder, group)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.absolute()
        if spec.replicate >= spec.protocol.replicates:
            remove(self._folder, group)

    def of_revision(self, spec: JobSpec, baseline: str = "") -> Path:
        """The cache folder of a revision's case, kept from one pair of a gate to the next.

        A new folder begins with a copy of the kernels that the ``baseline`` has by then. They are
        named by their source, so equal ones are compiled, and timed, once. Nothing is copied to a
        baseline: code under review could plant kernels there.

        No two cases share a folder, and no graph is copied: torch's keys of graphs leave out some
        settings.
        """
        self._clear()
        folder = self._of_revision(spec, spec.revision)
        if baseline and not folder.exists():
            _copy_kernels(self._of_revision(spec, baseline), folder)
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        return folder

    def _of_revision(self, spec: JobSpec, revision: str) -> Path:
        named = hashlib.sha256(f"{revision}\n{spec.case.key}".encode()).hexdigest()[:32]
        return self._folder.absolute() / f"{_OF_REVISION}{named}"

    def _clear(self) -> None:
        with suppress(OSError):
            for old in self._folder.iterdir():
                kept_s = REVISION_KEPT_S if old.name.startswith(_OF_REVISION) else KEPT_S
                if time.time() - old.stat().st_mtime > kept_s:
                    remove(self._folder, old.name)


def _copy_kernels(caches: Path, to: Path) -> None:
    """Copy the kernels of a folder of caches, links as links; if that fails, copy nothing."""
    made = to.with_name(f"{_OF_REVISION}{secrets.token_hex(16)}")
    try:
        shutil.copytree(caches, made, symlinks=True, ignore=_beside_kernels)
        for group in made.glob(f"{_PRIVATE['TRITON_CACHE_DIR']}/*/__grp__*.json"):
            paths = group.read_bytes()  # Triton names a kernel's files by their whole paths
            group.write_bytes(paths.replace(os.fsencode(caches), os.fsencode(to)))
        made.rename(to)
    except (OSError, RecursionError):  # a process that compiles beside it moves its files
        remove(made.parent, made.name)


def _beside_kernels(folder: str, names: list[str]) -> list[str]:
    """Give what lies in a folder of caches beside kernels: graphs, and choices by shape."""
    inductor = Path(folder).name == _PRIVATE["TORCHINDUCTOR_CACHE_DIR"]
    return [name for name in names if inductor and len(name) != _BY_SOURCE]
