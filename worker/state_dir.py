"""A worker's own folder: locked by one process, and what it writes there survives a power cut."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from benchmarks.contracts import Id
from worker.child.process_tree import Tree

T = TypeVar("T")


class Occupied(Exception):
    """Another worker uses this folder, or the folder cannot be used at all."""


@dataclass(frozen=True)
class Pending:
    """A claim, written down before it is made."""

    claim_id: Id
    runs: int = 0
    """How many times its job was begun; the worker died in all of them but perhaps the last."""
    lease_s: float = 0.0
    job_id: Id | Literal[""] = ""
    attempt: int = 0


@dataclass(frozen=True)
class Leftover:
    """The children that were started, and their temporary folder."""

    trees: tuple[Tree, ...]
    folder: str


def identity(folder: Path) -> str:
    """Return the name of this folder, different from every other worker's while it exists."""
    path = folder / "identity.json"
    known = _load(path, _Identity)
    if known is None:
        known = _Identity(uuid.uuid4().hex[:12])
        with suppress(OSError):  # a full disk is told of when the first claim is written down
            _save(path, known)
    return known.name


@dataclass(frozen=True)
class _Identity:
    name: str


class Journal:
    """The record of claim and child, for a worker that restarts after a crash."""

    def __init__(self, folder: Path) -> None:
        self._claim = folder / "claim.json"
        self._job = folder / "job.json"
        self._child = folder / "child.json"
        self._ahead = folder / "ahead.json"

    def pending(self) -> Pending | None:
        """The claim whose job is not settled, if there is one."""
        return _load(self._claim, Pending)

    def claim(self, pending: Pending) -> None:
        """Write a claim down; returns once it is on the disk."""
        _save(self._claim, pending)

    def settle(self) -> None:
        """Forget the claim: its result is spooled, or the attempt is over."""
        remove(self._claim)

    def leftovers(self) -> list[Leftover]:
        """The children that were running or waiting last, if nobody saw their end."""
        found = (_load(path, Leftover) for path in (self._job, self._child, self._ahead))
        return [leftover for leftover in found if leftover is not None]

    def started(self, trees: Sequence[Tree], folder: Path) -> None:
        """Write down which children run; without any, which folder the job uses beside theirs."""
        _save(self._child if trees else self._job, Leftover(tuple(trees), str(folder)))

    def ended(self) -> None:
        """Forget the job's folder and its children: nothing of them is left."""
        remove(self._child)
        remove(self._job)

    def started_ahead(self, trees: Sequence[Tree], folder: Path) -> None:
        """Write down which children wait for the next job."""
        _save(self._ahead, Leftover(tuple(trees), str(folder)))

    def ended_ahead(self) -> None:
        """Forget the children that waited."""
        remove(self._ahead)


@contextmanager
def locked(folder: Path, name: str) -> Iterator[Path]:
    """Hold ``folder`` for this process alone; the kernel lets it go if the process dies.

    Raises:
        Occupied: another process holds it, or it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Occupied(
            f"The worker's folder {folder} cannot be used ({error.strerror}): "
            "set THROUGHLINE_STATE_DIR to a folder that this user may write."
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Occupied(
                f"A worker named {name} already runs here (it holds {folder}): "
                "stop it, or give this one another name with --name."
            ) from None
        yield folder
    finally:
        os.close(lock)


def write_durably(path: Path, content: bytes) -> None:
    """Replace ``path`` so that after a crash it holds all of the old or all of the new content."""
    draft = path.with_name(path.name + ".tmp")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:  # a full disk: what was begun must not keep it full
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Delete ``path`` for good; it need not exist."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and deletions in ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _save(path: Path, value: Pending | Leftover | _Identity) -> None:
    write_durably(path, TypeAdapter(dict[str, object]).dump_json(asdict(value)))


def _load(path: Path, kind: type[T]) -> T | None:
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:  # written by another version: it says nothing to this one
        return None
