"""The base of every document that the API answers with."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A frozen document; whoever reads it ignores what a newer service says beside it."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)

    @classmethod
    def of(cls, row: object, **more: Any) -> Self:
        """The document of ``row``: each field is in ``more``, or an attribute of the row."""
        names = cls.model_fields.keys() - more.keys()
        return cls(**more, **{name: getattr(row, name) for name in names})
