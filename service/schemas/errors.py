"""Expected errors: each a class with a status and one sentence that helps.

`service.http.problems` makes answers of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class ServiceError(Exception):
    """An error that the service foresees."""

    status_code: ClassVar[int] = 500
    type: ClassVar[str] = "internal"
    title: ClassVar[str] = "The service failed"
    headers: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(
        cls,
        status: int = 0,
        type_: str = "",
        title: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Declare the answer; what is left out is the parent's."""
        cls.status_code = status or cls.status_code
        cls.type = type_ or cls.type
        cls.title = title or cls.title
        cls.headers = headers or cls.headers

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def answer_headers(self) -> Mapping[str, str]:
        """The headers of the answer."""
        return self.headers


class FileWrong(Exception):
    """A file of the operator's cannot be used; the service does not start."""


class BadRequest(ServiceError, status=400, type_="bad-request", title="Bad request"):
    """The request's line, headers or framing are wrong, or can be read in more than one way."""


class Unauthorized(
    ServiceError,
    status=401,
    type_="unauthorized",
    title="A token is needed",
    headers={"WWW-Authenticate": 'Bearer realm="throughline"'},
):
    """There is no token, or none that is good now: the sentence says which and where to get one."""


class Forbidden(ServiceError, status=403, type_="forbidden", title="Not allowed"):
    """The token is good, and not for this: use one of another kind, or of this worker."""


class TooMany(ServiceError, status=429, type_="too-many-requests", title="Too many requests"):
    """More requests than this client may send: wait as long as ``Retry-After`` says."""

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s

    def answer_headers(self) -> Mapping[str, str]:
        """Say how many seconds to wait."""
        return {"Retry-After": str(self.retry_after_s)}


class MalformedDocument(ServiceError, status=400, type_="malformed-json", title="Malformed JSON"):
    """The body is no JSON that every reader would read alike; nothing of it was looked at."""


class TooSlow(ServiceError, status=408, type_="too-slow", title="Request too slow"):
    """The body did not come in time: send it again over a better line, or send less."""


class TooLarge(ServiceError, status=413, type_="too-large", title="Request too large"):
    """The body is larger than this service accepts: send less at once."""


class WrongMediaType(ServiceError, status=415, type_="wrong-media-type", title="Wrong media type"):
    """The body is not what the call takes; nothing of it was looked at."""

    def __init__(self, media_type: str) -> None:
        super().__init__(f"The body must be {media_type}: send it with that Content-Type.")
        self.media_type = media_type

    def answer_headers(self) -> Mapping[str, str]:
        """Name the type that is taken."""
        return {"Accept": self.media_type}


class HeadersTooLarge(
    ServiceError, status=431, type_="headers-too-large", title="Headers too large"
):
    """The headers are more or larger than any client of this service needs."""


class Overloaded(
    ServiceError, status=503, type_="overloaded", title="Overloaded", headers={"Retry-After": "2"}
):
    """The service holds as much as it can: the same request may be sent again."""


class NotFound(ServiceError, status=404, type_="not-found", title="Not found"):
    """There is nothing under that name; look at the list that the collection's address gives."""


class Fenced(ServiceError, status=409, type_="fenced", title="Attempt is over"):
    """The attempt is not the caller's, or not any more: stop, the result is not wanted."""


class Conflict(ServiceError, status=409, type_="conflict", title="Conflict"):
    """What is stored already says otherwise, and stays."""


class Invalid(ServiceError, status=422, type_="invalid", title="Invalid request"):
    """The request is well-formed and asks for something that cannot be."""


class UnknownChoice(ServiceError, status=422, type_="unknown-name", title="Unknown name"):
    """A workload, preset, axis, value or suite that this version lacks; a revision never seen or
    that no worker has."""


class Impossible(
    ServiceError, status=422, type_="impossible-combination", title="Impossible combination"
):
    """A combination of axes that cannot run."""


class Unresolved(ServiceError, status=409, type_="unresolved"):
    """No worker says now which commit a ref is at: wait for one, or name the commit."""


class KeyReused(
    ServiceError, status=422, type_="idempotency-key-reused", title="Idempotency key reused"
):
    """An idempotency key that was used for another request: take a fresh key."""


class ArtifactsUnavailable(
    ServiceError, status=503, type_="artifacts-unavailable", title="The artifacts cannot be used"
):
    """The artifacts cannot be read or written just now: try again."""


class DatabaseUnavailable(
    ServiceError,
    status=503,
    type_="database-unavailable",
    title="Database unavailable",
    headers={"Retry-After": "5"},
):
    """The database is locked, read-only or away: the same request may be sent again."""


class NotMigrated(
    DatabaseUnavailable,
    type_="not-migrated",
    title="Database not migrated",
    headers={"Retry-After": "60"},
):
    """The database does not have this version's tables: run ``throughline migrate``."""


class MadeByNewer(
    DatabaseUnavailable,
    type_="made-by-newer",
    title="Database of a newer version",
    headers={"Retry-After": "60"},
):
    """A newer version made the database's tables: run that one, or restore an earlier backup."""


REUSED = "This Idempotency-Key came with another request; take a fresh key."
BUSY = "The database is busy; try again in a moment."
