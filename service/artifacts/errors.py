"""The error of a store that cannot be used."""

from __future__ import annotations

from service.errors import ServiceError


class ArtifactsUnavailable(ServiceError):
    """The artifacts cannot be read or written just now: try again."""

    status_code = 503
    type = "artifacts-unavailable"
    title = "The artifacts cannot be used"
