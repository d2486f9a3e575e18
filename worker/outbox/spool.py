"""Finished results, and their artifacts, on disk until the service has confirmed them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from benchmarks.artifact_kinds import ArtifactKind
from worker.client import Fenced, Refused, Ticket
from worker.state_dir import remove, sync_folder, write_durably

log = logging.getLogger(__name__)

_TICKET = TypeAdapter(Ticket)
MOST_ARTIFACTS = 32
"""A quarter of a GiB: what a service does not take must not fill the disk."""


class Answer(StrEnum):
    """The service's final answer to a result that was sent."""

    COUNTED = "counted"
    UNCOUNTED = "uncounted"
    """The attempt was over: the service keeps the result and does not count it."""
    REJECTED = "rejected"


@dataclass(frozen=True)
class Entry:
    """One result or artifact; the same bytes each time that it is sent."""

    ticket: Ticket
    body: bytes
    path: Path | None
    """None if the disk is full and only this process holds it."""
    kind: ArtifactKind | None = None
    """None: it is a result."""


class Spool:
    """A folder of results, oldest first; one worker's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rejected = folder / "rejected"
        self._rejected.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, ticket: Ticket, body: bytes) -> Entry:
        """Keep a result; when this returns it survives the worker and a power cut.

        With a full disk it is sent from memory, unprotected.
        """
        try:
            return Entry(ticket, body, self._write(ticket, body, "result"))
        except OSError as error:
            log.error("The result of %s is only in memory: %s. Free some disk.", ticket, error)
            return Entry(ticket, body, None)

    def put_artifact(self, ticket: Ticket, kind: ArtifactKind, body: bytes) -> None:
        """Keep an artifact of a stored result; with a full disk it is lost."""
        if sum(1 for _ in self._artifacts()) >= MOST_ARTIFACTS:
            log.error("The %s of %s is lost: %d others wait already.", kind, ticket, MOST_ARTIFACTS)
            return
        try:
            self._write(ticket, body, kind)
        except OSError as error:
            log.error("The %s of %s is lost: %s. Free some disk.", kind, ticket, error)

    def _write(self, ticket: Ticket, body: bytes, kind: str) -> Path:
        path = self._folder / f"{time.time_ns():020d}.{kind}"
        head = TypeAdapter(dict[str, object]).dump_json(asdict(ticket))
        write_durably(path, head + b"\n" + body)
        return path

    def entries(self) -> list[Entry]:
        """List the results to deliver, oldest first; move invalid files to ``rejected``."""
        found = map(self._read, sorted(self._folder.glob("*.result")))
        return [entry for entry in found if entry is not None]

    def artifacts(self) -> Iterator[Entry]:
        """Artifacts of confirmed results, oldest first; read one at a time."""
        unanswered = {entry.ticket for entry in self.entries()}
        entries = (self._read(path, ArtifactKind(path.suffix[1:])) for path in self._artifacts())
        return (one for one in entries if one is not None and one.ticket not in unanswered)

    def _artifacts(self) -> Iterator[Path]:
        kinds = {f".{kind}" for kind in ArtifactKind}
        return (path for path in sorted(self._folder.iterdir()) if path.suffix in kinds)

    def _read(self, path: Path, kind: ArtifactKind | None = None) -> Entry | None:
        head, _, body = path.read_bytes().partition(b"\n")
        try:
            return Entry(_TICKET.validate_json(head), body, path, kind)
        except ValidationError:
            self._move_to_rejected(path, f"This file is no spooled {kind or 'result'}.")
            return None

    def deliver(self, entry: Entry, post: Callable[[Ticket, bytes], None]) -> Answer:
        """Send ``entry`` and act on a final answer.

        Raises:
            ServiceAway: there is no answer yet; the entry stays.
        """
        try:
            post(entry.ticket, entry.body)
        except Fenced as fenced:
            log.warning("The result of %s does not count: %s", entry.ticket, fenced)
            self._forget(entry)
            return Answer.UNCOUNTED
        except Refused as refused:
            self._reject(entry, refused)
            return Answer.REJECTED
        self._forget(entry)
        return Answer.COUNTED

    def deliver_artifact(
        self, entry: Entry, post: Callable[[Ticket, ArtifactKind, bytes], None]
    ) -> None:
        """Send an artifact, or give it up if the service refuses it.

        Raises:
            ServiceAway: there is no answer yet; the entry stays.
        """
        assert entry.kind
        try:
            post(entry.ticket, entry.kind, entry.body)
        except (Fenced, Refused) as refused:
            sentence = "The service does not take the %s of %s: %s"
            log.error(sentence, entry.kind, entry.ticket, refused)
        self._forget(entry)

    def _forget(self, entry: Entry) -> None:
        if entry.path is not None:
            remove(entry.path)

    def _reject(self, entry: Entry, refused: Refused) -> None:
        sentence = f"The service refused the result ({refused.status}): {refused}"
        if entry.path is None:
            log.error("%s: %s It could not be kept.", entry.ticket, sentence)
            return
        kept = self._move_to_rejected(entry.path, sentence)
        log.error("%s: %s It is kept in %s.", entry.ticket, sentence, kept)

    def _move_to_rejected(self, path: Path, sentence: str) -> Path:
        kept = self._rejected / path.name
        with suppress(OSError):  # a full disk costs the sentence, which the log has too
            write_durably(kept.with_suffix(".reason"), sentence.encode() + b"\n")
        path.rename(kept)
        sync_folder(self._folder)
        sync_folder(self._rejected)
        return kept
