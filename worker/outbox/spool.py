"""Finished results, and their traces, on disk until the service has confirmed them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from worker.client import Fenced, Refused, Ticket
from worker.state_dir import remove, sync_folder, write_durably

log = logging.getLogger(__name__)

_TICKET = TypeAdapter(Ticket)
MOST_TRACES = 32
"""Most traces, a quarter of a GiB: traces that a service does not take must not fill the disk."""


class Answer(StrEnum):
    """The service's final answer to a result that was sent."""

    COUNTED = "counted"
    UNCOUNTED = "uncounted"
    """The attempt was over: the service keeps the result and does not count it."""
    REJECTED = "rejected"


@dataclass(frozen=True)
class Entry:
    """One result or trace; the same bytes each time that it is sent."""

    ticket: Ticket
    body: bytes
    path: Path | None
    """None if the disk is full and only this process holds it."""


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

    def put_trace(self, ticket: Ticket, body: bytes) -> None:
        """Keep the trace of a stored result; with a full disk it is lost."""
        if len(list(self._folder.glob("*.trace"))) >= MOST_TRACES:
            log.error("The trace of %s is lost: %d others wait already.", ticket, MOST_TRACES)
            return
        try:
            self._write(ticket, body, "trace")
        except OSError as error:
            log.error("The trace of %s is lost: %s. Free some disk.", ticket, error)

    def _write(self, ticket: Ticket, body: bytes, kind: str) -> Path:
        path = self._folder / f"{time.time_ns():020d}.{kind}"
        head = TypeAdapter(dict[str, object]).dump_json(asdict(ticket))
        write_durably(path, head + b"\n" + body)
        return path

    def entries(self) -> list[Entry]:
        """List the results to deliver, oldest first; move invalid files to ``rejected``."""
        return list(self._read("result"))

    def traces(self) -> Iterator[Entry]:
        """Traces of confirmed results, oldest first; read one at a time."""
        unanswered = {entry.ticket for entry in self._read("result")}
        return (entry for entry in self._read("trace") if entry.ticket not in unanswered)

    def _read(self, kind: str) -> Iterator[Entry]:
        for path in sorted(self._folder.glob(f"*.{kind}")):
            head, _, body = path.read_bytes().partition(b"\n")
            try:
                yield Entry(_TICKET.validate_json(head), body, path)
            except ValidationError:
                self._move_to_rejected(path, f"This file is no spooled {kind}.")

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

    def deliver_trace(self, entry: Entry, post: Callable[[Ticket, bytes], None]) -> None:
        """Send a trace, or give it up if the service refuses it.

        Raises:
            ServiceAway: there is no answer yet; the entry stays.
        """
        try:
            post(entry.ticket, entry.body)
        except (Fenced, Refused) as refused:
            log.error("The service does not take the trace of %s: %s", entry.ticket, refused)
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
