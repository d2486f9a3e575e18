"""The base of every document that the API answers with."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A frozen document; whoever reads it ignores what a newer service says beside it."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)
