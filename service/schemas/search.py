"""The hits of a search, as the API answers."""

from __future__ import annotations

from typing import Literal

from service.schemas.document import Document


class SearchHit(Document):
    """One thing with a page of its own."""

    kind: Literal["finding", "revision", "series", "run"]
    title: str
    said: str
    """Tells it apart from others of this title; may be empty."""
    page: str
    """The path of its page."""
