"""A row that is written to see whether writing works."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from service.models.columns import Base


class WriteProbe(Base):
    """One row; `service.database.health` says when it is written."""

    __tablename__ = "write_probes"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    written: Mapped[int]
    """How often. It must differ each time: SQLite writes no page that stays as it is."""
