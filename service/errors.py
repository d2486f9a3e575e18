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

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def answer_headers(self) -> Mapping[str, str]:
        """The headers of the answer."""
        return self.headers


class BadRequest(ServiceError):
    """The request's line, headers or framing are wrong, or can be read in more than one way."""

    status_code = 400
    type = "bad-request"
    title = "Bad request"


class Unauthorized(ServiceError):
    """There is no token, or none that is good now: the sentence says which and where to get one."""

    status_code = 401
    type = "unauthorized"
    title = "A token is needed"
    headers: ClassVar[Mapping[str, str]] = {"WWW-Authenticate": 'Bearer realm="throughline"'}


class Forbidden(ServiceError):
    """The token is good, and not for this: use one of another kind, or of this worker."""

    status_code = 403
    type = "forbidden"
    title = "Not allowed"


class TooMany(ServiceError):
    """More requests than this client may send: wait as long as ``Retry-After`` says."""

    status_code = 429
    type = "too-many-requests"
    title = "Too many requests"

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s

    def answer_headers(self) -> Mapping[str, str]:
        """Say how many seconds to wait."""
        return {"Retry-After": str(self.retry_after_s)}


class MalformedDocument(ServiceError):
    """The body is no JSON that every reader would read alike; nothing of it was looked at."""

    status_code = 400
    type = "malformed-json"
    title = "Malformed JSON"


class TooSlow(ServiceError):
    """The body did not come in time: send it again over a better line, or send less."""

    status_code = 408
    type = "too-slow"
    title = "Request too slow"


class TooLarge(ServiceError):
    """The body is larger than this service accepts: send less at once."""

    status_code = 413
    type = "too-large"
    title = "Request too large"


class WrongMediaType(ServiceError):
    """The body is not what the call takes; nothing of it was looked at."""

    status_code = 415
    type = "wrong-media-type"
    title = "Wrong media type"

    def __init__(self, media_type: str) -> None:
        super().__init__(f"The body must be {media_type}: send it with that Content-Type.")
        self.media_type = media_type

    def answer_headers(self) -> Mapping[str, str]:
        """Name the type that is taken."""
        return {"Accept": self.media_type}


class HeadersTooLarge(ServiceError):
    """The headers are more or larger than any client of this service needs."""

    status_code = 431
    type = "headers-too-large"
    title = "Headers too large"


class Overloaded(ServiceError):
    """The service holds as much as it can: the same request may be sent again."""

    status_code = 503
    type = "overloaded"
    title = "Overloaded"
    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "2"}


class NotFound(ServiceError):
    """There is nothing under that name; look at the list that the collection's address gives."""

    status_code = 404
    type = "not-found"
    title = "Not found"


class Fenced(ServiceError):
    """The attempt is not the caller's, or not any more: stop, the result is not wanted."""

    status_code = 409
    type = "fenced"
    title = "Attempt is over"


class Conflict(ServiceError):
    """What is stored already says otherwise, and stays."""

    status_code = 409
    type = "conflict"
    title = "Conflict"


class Invalid(ServiceError):
    """The request is well-formed and asks for something that cannot be."""

    status_code = 422
    type = "invalid"
    title = "Invalid request"


class UnknownChoice(ServiceError):
    """A workload, preset, axis, value or suite that this version lacks; a revision never seen or
    that no worker has."""

    status_code = 422
    type = "unknown-name"
    title = "Unknown name"


class Impossible(ServiceError):
    """A combination of axes that cannot run."""

    status_code = 422
    type = "impossible-combination"
    title = "Impossible combination"


class Unresolved(ServiceError):
    """No worker says now which commit a ref is at: wait for one, or name the commit."""

    status_code = 409
    type = "unresolved"


class KeyReused(ServiceError):
    """An idempotency key that was used for another request: take a fresh key."""

    status_code = 422
    type = "idempotency-key-reused"
    title = "Idempotency key reused"


class ArtifactsUnavailable(ServiceError):
    """The artifacts cannot be read or written just now: try again."""

    status_code = 503
    type = "artifacts-unavailable"
    title = "The artifacts cannot be used"


class DatabaseUnavailable(ServiceError):
    """The database is locked, read-only or away: the same request may be sent again."""

    status_code = 503
    type = "database-unavailable"
    title = "Database unavailable"
    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "5"}


class NotMigrated(DatabaseUnavailable):
    """The database does not have this version's tables: run ``throughline migrate``."""

    type = "not-migrated"
    title = "Database not migrated"
    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "60"}


class MadeByNewer(DatabaseUnavailable):
    """A newer version made the database's tables: run that one, or restore an earlier backup."""

    type = "made-by-newer"
    title = "Database of a newer version"
    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "60"}


REUSED = "This Idempotency-Key came with another request; take a fresh key."
BUSY = "The database is busy; try again in a moment."
