"""Folders that are made once and then only read, however many processes start together."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.data import UnusableData

STALE_S = 3_600.0
"""Age at which an unfinished folder has been left by a process that was killed."""


def cache_folder() -> Path:
    """Return the folder where input files are made once."""
    named = os.environ.get("THROUGHLINE_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(home) / "throughline"


def kept_file(folder: Path, key: object) -> Path:
    """Return the file in ``folder`` that keeps what was found for ``key``, a value of JSON."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return folder / f"{digest[:32]}.json"


def keep(path: Path, body: bytes) -> None:
    """Write ``body`` into a `kept_file`; a folder that cannot be written is ignored."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def made_once(folder: Path, what: str, make: Callable[[Path], None]) -> Path:
    """Return ``folder``; if it is not there yet, let ``make`` fill it.

    ``make`` works in a neighbouring folder that takes its name only when it is complete, so a
    process that is killed half-way leaves nothing that looks finished. A lock lets one process
    work while the others wait; where a file system has no locks, the rename lets only one win.

    Raises:
        UnusableData: the cache folder cannot be written.
    """
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.parent / f".{folder.name}.lock"):
            if not folder.is_dir():
                _make(folder, what, make)
    except OSError as error:
        raise UnusableData(
            f"The input files cannot be made in {folder.parent} ({error.strerror or error}); "
            "set THROUGHLINE_CACHE_DIR to a folder that can be written and has room."
        ) from error
    return folder


def _make(folder: Path, what: str, make: Callable[[Path], None]) -> None:
    _sweep(folder)
    started = time.monotonic()
    sys.stderr.write(f"Making {what} in {folder} (once) ...\n")
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        make(unfinished)
        unfinished.chmod(0o755)  # mkdtemp's own mode would keep another user's worker out
        _take_name(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sys.stderr.write(f"Made {what} in {time.monotonic() - started:.1f} s.\n")


def _take_name(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was first, with equal files
            raise


def _sweep(folder: Path) -> None:
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        if leftover.is_dir() and time.time() - leftover.stat().st_mtime > STALE_S:
            shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with suppress(OSError):  # a network file system may have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
