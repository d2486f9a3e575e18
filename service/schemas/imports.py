"""Requests to import what other tools measured, and what became of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchmarks.contracts import Contract, Name
from benchmarks.contracts.values import Flag
from service.schemas.document import Document
from service.schemas.measured_elsewhere import ForeignPoint

MOST_POINTS = 1_000


class ImportRequest(Contract):
    """Points of one source, which are imported together or not at all."""

    source: Name
    """The tool that measured them, such as ``asv``; two sources never share a series."""
    project: Name | None = None
    points: Annotated[tuple[ForeignPoint, ...], Field(min_length=1, max_length=MOST_POINTS)]
    check_only: Flag = False
    """Only say whether these could be stored: for an import of several requests, before the
    first."""


class Imported(Document):
    """Counts of what was new in an import."""

    new: int
    """Points that are stored now."""
    known: int
    """Points that were imported before, with the same content, or that the request repeats."""
    series: list[str]
    """Ids of the series that have new points."""
