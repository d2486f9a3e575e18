"""The parts of every table: its base class, its times, and its constraints."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, CheckConstraint, DateTime, Index, MetaData, String, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


SQLITE_TIME = sqlite.DATETIME(  # type: ignore[no-untyped-call]
    storage_format=(
        "%(year)04d-%(month)02d-%(day)02d "
        "%(hour)02d:%(minute)02d:%(second)02d.%(microsecond)06d+00:00"
    )
)
"""Text that says its offset, so that the driver reads an aware time with no code of ours."""


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC instant on both databases; connections to PostgreSQL speak UTC."""

    impl = DateTime(timezone=True).with_variant(SQLITE_TIME, "sqlite")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Refuse a naive time; store UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone cannot be stored")
        return value.astimezone(UTC)


class Base(DeclarativeBase):
    """Names every constraint, so that migrations can drop what they made on both databases."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        datetime: UtcDateTime(),
        dict[str, Any]: JSON(),
        dict[str, str]: JSON(),
        list[str]: JSON(),
        list[dict[str, Any]]: JSON(),
        list[Any]: JSON(),
        str: String(),
    }

    def fields_of(self, view: type[Any]) -> dict[str, Any]:
        """The values of the columns that a dataclass has as fields of the same name."""
        columns = self.__table__.c
        names = [field.name for field in fields(view) if field.name in columns]
        return {name: getattr(self, name) for name in names}


class ProjectOwned:
    """Of a project: what is bound to another one does not see it."""

    project: Mapped[str] = mapped_column(String(64), default="", server_default="")
    """Empty: it belongs to none."""


def states(column: str, known: type[StrEnum]) -> CheckConstraint:
    """Let ``column`` hold nothing but the values of ``known``."""
    names = ", ".join(f"'{state.value}'" for state in known)
    return CheckConstraint(f"{column} in ({names})", name=f"{column}_known")


def one_per_job(name: str, condition: str) -> Index:
    """Let at most one row per job meet ``condition``: a promise that the database keeps."""
    where = text(condition)
    return Index(name, "job_id", unique=True, sqlite_where=where, postgresql_where=where)
