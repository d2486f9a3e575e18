"""Forges whose comments give commands: their hooks tell of each new comment."""

from __future__ import annotations

import hmac
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from service.outbox.sinks.forge import Forge, Place
from service.outbox.sinks.forge_api import ForgeApi
from service.outbox.sinks.sink import Kept


@dataclass(frozen=True, slots=True)
class Spoken:
    """A new comment on a pull request that somebody wrote."""

    place: Place
    comment_id: str
    author: str
    """As the forge's API names him."""
    body: str


class HookedForge(Forge):
    """A forge that tells of comments."""

    hook_secret: Kept | None = None
    """Proves that a hook is the forge's; without it comments give no commands."""

    def spoken(self, headers: Mapping[str, str], body: bytes) -> Spoken | None:
        """Read a hook: the new comment on a pull request that it tells of, if it does.

        Raises:
            PermissionError: it is not signed by the forge.
        """
        key = "" if self.hook_secret is None else self.hook_secret.get_secret_value()
        given, signed = self.signatures(key.encode(), headers, body)
        if not key or not hmac.compare_digest(given.encode(), signed.encode()):
            raise PermissionError
        try:
            return self.comment_in(headers, orjson.loads(body))
        except (KeyError, TypeError, ValueError):  # of another version, or an event of another kind
            return None

    @abstractmethod
    def signatures(self, key: bytes, headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
        """The signature that a hook has, and the one that it must have."""

    @abstractmethod
    def comment_in(self, headers: Mapping[str, str], hook: Any) -> Spoken | None:
        """The new comment on a pull request of this sink; None if the hook tells of none."""

    @abstractmethod
    def permits(self, api: ForgeApi, spoken: Spoken) -> bool:
        """Ask whether the author of a comment may write to the repository."""

    @abstractmethod
    def ends(self, api: ForgeApi, place: Place) -> tuple[str, str]:
        """The commit where a pull request left its base, and its newest one."""
