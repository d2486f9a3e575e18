"""Checks each imported point: its row, its name and the point that it makes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import cast

from pydantic import ValidationError
from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from service import models
from service.history.imports import Incoming
from service.maintenance.verify.agreement import ROWS
from service.maintenance.verify.reading import pages
from service.maintenance.verify.series import differences
from service.maintenance.verify.values import Breach
from service.schemas.measured_elsewhere import ForeignPoint


def every_imported_point(session: Session) -> Iterator[Breach]:
    """6 and 11: an imported point is named by its content, and makes one point of its series."""
    row, point = models.ImportedPoint, models.Point
    query = (
        select(row.id, row, models.SeriesRow, models.Revision.ordered_at, point)
        .outerjoin(models.SeriesRow, models.SeriesRow.id == row.series_id)
        .outerjoin(models.Revision, models.Revision.name == row.revision)
        .outerjoin(point, (point.result_id == row.id) & (point.series_id == row.series_id))
    )
    for page in pages(session, query, (cast(Table, row.__table__).c.id,)):
        for _, *found in page:
            subject = f"imported_points {found[0].id}"
            for promise, sentence in _wrong(*found):
                yield Breach(promise, subject, sentence)
        session.expunge_all()


def _wrong(
    row: models.ImportedPoint,
    series: models.SeriesRow | None,
    ordered_at: datetime | None,
    point: models.Point | None,
) -> Iterator[tuple[int, str]]:
    if series is None or ordered_at is None:
        return  # another rule tells of rows that refer to none
    if not series.source:
        yield ROWS, f"Its series {series.id} was measured here."
        return
    try:
        said = ForeignPoint.model_validate_json(row.document)
    except ValidationError:
        yield ROWS, "Its document is no point that this version can read."
        return
    incoming = Incoming(series.source, row.project, said)
    due = incoming.row(row.received_at)
    due |= {"document": row.document}  # another version may leave out other defaults
    for name, value in due.items():
        if getattr(row, name) != value:
            yield ROWS, f"Its {name} is {getattr(row, name)}; its document says {value}."
    if (series.unit, series.direction) != (said.unit, said.direction):
        yield ROWS, f"Its series is in {series.unit}, {series.direction} is better."
    if point is None:
        yield 6, "It has no point in its series."
        return
    for difference in differences(point, incoming.as_point(ordered_at, row.received_at)):
        yield 7, f"Its point {difference}."
