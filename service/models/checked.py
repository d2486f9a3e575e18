"""A checksum in each row that holds facts of its own, so that a change past the service is seen.

It is no signature: whoever can write a row can write its checksum too. It shows a bad disk, a
repair by hand, and a statement that changed more than it should. docs/reliability.md says more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar

from sqlalchemy import Column, Float, String, event
from sqlalchemy.orm import Mapped, mapped_column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Checked:
    """Adds a checksum over the columns that only the service changes, always with the checksum.

    Rows that are added or changed through the ORM get it by themselves. Other statements must
    write `checked` values.
    """

    CHECKED: ClassVar[Sequence[str]]
    """Columns that the checksum covers. To change this list takes a migration."""
    checksum: Mapped[str] = mapped_column(String(64), default="", server_default="")
    """SHA-256 of the covered columns, in hexadecimal."""

    @classmethod
    def checked(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Give ``values``, which name every covered column, with their checksum."""
        return {**values, "checksum": cls.checksum_of(values)}

    @classmethod
    def checksum_of(cls, values: Mapping[str, Any]) -> str:
        """The checksum of a row with these values, alike before and after it was stored."""
        columns = cls.__table__.c  # type: ignore[attr-defined]
        told = [[name, _plain(columns[name], values[name])] for name in cls.CHECKED]
        written = json.dumps([cls.__tablename__, told], sort_keys=True)  # type: ignore[attr-defined]
        return hashlib.sha256(written.encode()).hexdigest()

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Give ``values`` with the checksum that this row has once it has them."""
        after = {name: values.get(name, getattr(self, name)) for name in self.CHECKED}
        return {**values, "checksum": self.checksum_of(after)}


def _plain(column: Column[Any], value: Any) -> Any:
    """A value as it comes back from either database, in terms that JSON knows."""
    if value is None and column.default is not None and column.default.is_scalar:
        value = column.default.arg  # type: ignore[attr-defined]
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(column.type, Float) and value is not None:
        return float(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return json.loads(json.dumps(value))


@event.listens_for(Checked, "before_insert", propagate=True)
@event.listens_for(Checked, "before_update", propagate=True)
def _check(_mapper: object, _connection: object, row: Checked) -> None:
    row.checksum = row.changed({})["checksum"]
