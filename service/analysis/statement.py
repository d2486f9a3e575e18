"""A thing to be said, as facts: stored so, and put into words only where it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence or clause without its words; ``service.wording`` has those of each kind."""

    kind: str
    facts: Mapping[
        str, str | bool | int | float | Statement | tuple[str | Statement | None, ...] | None
    ]

    @classmethod
    def of(cls, kind: str, /, **facts: object) -> Statement:
        """A statement of one kind."""
        return cls(kind, facts)  # type: ignore[arg-type]

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Statement:
        """A statement that was stored."""
        return _JSON.validate_python(document)

    def stored(self) -> dict[str, Any]:
        """The statement as a JSON document."""
        document: dict[str, Any] = _JSON.dump_python(self, mode="json")
        return document


_JSON = TypeAdapter(Statement)
