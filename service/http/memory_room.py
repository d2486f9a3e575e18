"""The memory that bodies and answers may hold, together and for each client."""

from __future__ import annotations

from collections import Counter

from service.errors import Overloaded


class Room:
    """At most ``most_b`` bytes, and of each client at most half of that.

    Who holds nothing may always take something, so that no single thing is too large for ever.
    """

    def __init__(self, most_b: int) -> None:
        self._most_b = most_b
        self._of: Counter[str] = Counter()
        self.held_b = 0
        """What all clients hold now."""

    def take(self, client: str, size_b: int) -> None:
        """Note that a client holds so many more bytes.

        Raises:
            Overloaded: it may not, and nothing was noted.
        """
        of_client, of_all = self._of[client], self.held_b
        if of_client and of_client + size_b > self._most_b // 2:
            raise Overloaded("You are sending or fetching too much at once; try again in a moment.")
        if of_all and of_all + size_b > self._most_b:
            raise Overloaded("The service holds too much at once; try again in a moment.")
        self._of[client] += size_b
        self.held_b += size_b

    def give(self, client: str, size_b: int) -> None:
        """Note that a client holds so many bytes no more."""
        self.held_b -= size_b
        self._of[client] -= size_b
        if not self._of[client]:
            del self._of[client]
