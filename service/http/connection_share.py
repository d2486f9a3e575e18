"""Connections for which no token vouches yet, and which of them ends when there are too many.

Without this, one address that asks for no page and has no token could hold every connection there
is. Shares are counted only when connections run out, so that a proxy, behind which everybody has
one address, may have as many as it likes until then.
"""

from __future__ import annotations

from typing import Protocol


class Guest(Protocol):
    """The facts about a connection that `Strangers` needs."""

    network: str
    """From where it comes, as `network_of` says."""

    @property
    def is_known(self) -> bool:
        """Return True if a good token came on the connection."""

    def give_way(self) -> None:
        """End it, for somebody else's sake."""


class Strangers:
    """The connections of one service that nobody vouches for, by where they come from."""

    def __init__(self) -> None:
        self._of: dict[str, dict[Guest, None]] = {}

    def note(self, guest: Guest) -> None:
        """Count a connection that was made, or on which something was answered, just now."""
        self.forget(guest)
        if not guest.is_known:
            self._of.setdefault(guest.network, {})[guest] = None

    def forget(self, guest: Guest) -> None:
        """Count a connection no more."""
        its = self._of.get(guest.network, {})
        its.pop(guest, None)
        if not its:
            self._of.pop(guest.network, None)

    def make_room(self) -> bool:
        """Of whoever has most of them, end the one on which nothing was answered for longest.

        Says whether one was ended.
        """
        while self._of:
            most = max(self._of.values(), key=len)
            guest = next(iter(most))
            self.forget(guest)
            if not guest.is_known:  # its first request with a token may still be worked on
                guest.give_way()
                return True
        return False
