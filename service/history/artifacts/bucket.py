"""Artifacts in a bucket of S3 or of a store that speaks as it does.

Only the service talks to the bucket: workers and readers have no key of it. Address of the store
and keys come from the environment as for AWS' own tools (``AWS_ENDPOINT_URL`` ...).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from service.schemas.errors import ArtifactsUnavailable

log = logging.getLogger(__name__)

SCHEME = "s3://"
_ATTEMPT, _ALL = timedelta(seconds=10), timedelta(seconds=30)
"""For one request, and for all that repeat it: a worker waits a minute for its answer."""
_DIRECT = timedelta(minutes=5)


class BucketStore:
    """Artifacts under ``s3://BUCKET/PREFIX``."""

    def __init__(self, url: str) -> None:
        """Raises `ArtifactsUnavailable` without the library, or if it refuses the settings."""
        try:
            import obstore  # noqa: PLC0415 - optional
            from obstore.store import S3Store  # noqa: PLC0415
        except ImportError:
            sentence = "Artifacts in a bucket need obstore: pip install 'throughline[s3]'."
            raise ArtifactsUnavailable(sentence) from None
        self.url = url
        self._obstore = obstore
        with self._told("opened"):
            self._bucket = S3Store.from_url(
                url,
                client_options={
                    "timeout": _ATTEMPT,
                    "connect_timeout": _ATTEMPT,
                    "allow_http": True,  # where the operator named such an address
                },
                retry_config={"max_retries": 3, "retry_timeout": _ALL},
            )

    def put(self, digest: str, body: bytes) -> None:
        """Upload a body; the store says that it has it.

        Raises:
            ArtifactsUnavailable: it does not.
        """
        with self._told("written"):
            self._obstore.put(self._bucket, digest, body)

    def get(self, digest: str) -> bytes | None:
        """Download a body.

        Raises:
            ArtifactsUnavailable: the store does not answer, or refuses.
        """
        with self._told("read"):
            try:
                return bytes(self._obstore.get(self._bucket, digest).bytes())
            except FileNotFoundError:
                return None

    def address(self, digest: str) -> str:
        """A presigned address, good for `_DIRECT`; the object may be gone all the same."""
        with self._told("addressed"):
            return str(self._obstore.sign(self._bucket, "GET", digest, _DIRECT))

    def older_than(self, age: timedelta) -> Iterator[str]:
        """Name what was not put for that long."""
        with self._told("listed"):
            for page in self._obstore.list(self._bucket, chunk_size=1_000):
                yield from (one["path"] for one in page if _age(one["last_modified"]) >= age)

    def delete(self, digest: str, age: timedelta) -> None:
        """Delete an object, unless it was put again within that age.

        S3 cannot do both in one step: what is put again in the moment between is lost.
        """
        with self._told("deleted"):
            try:
                if _age(self._obstore.head(self._bucket, digest)["last_modified"]) >= age:
                    self._obstore.delete(self._bucket, digest)
            except FileNotFoundError:
                return

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (self._obstore.exceptions.BaseError, OSError) as error:
            log.warning("%s: %s", self.url, str(error).partition("\n")[0])
            sentence = f"The artifacts in {self.url} cannot be {what} ({type(error).__name__})."
            raise ArtifactsUnavailable(sentence) from error


def _age(then: datetime) -> timedelta:
    return datetime.now(UTC) - then
