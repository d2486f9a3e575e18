"""A clock for sixty nights in minutes: the service reads no other while it is in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from unittest import mock

TICK = timedelta(milliseconds=1)
"""From one reading to the next: whatever is named by its time is made in that order."""


@dataclass
class Clock:
    """Stands still but for a tick at each reading, so that a history is the same again."""

    now: datetime

    def read(self) -> datetime:
        """The time."""
        self.now += TICK
        return self.now

    def jump(self, to: datetime) -> None:
        """Go on from a later time."""
        self.now = max(self.now, to)


@contextmanager
def in_place_of_the_real_one(clock: Clock) -> Iterator[None]:
    """Let the service on SQLite read ``clock`` until the block ends."""

    class Simulated(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return clock.read().astimezone(tz or UTC)

    with mock.patch("service.database.session.datetime", Simulated):
        yield
