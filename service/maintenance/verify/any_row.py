"""Checks rows of every kind: they can be read, and agree with the rows that they refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, cast

from sqlalchemy import Column, ForeignKeyConstraint, Row, Select, Table, and_, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from service import models
from service.findings import threshold_table
from service.history import imports, record
from service.maintenance.verify.agreement import ROWS, key_of, names_moment
from service.maintenance.verify.reading import pages
from service.maintenance.verify.statements import MOST
from service.maintenance.verify.values import Breach

_BODIES = (models.ResultRow.document.key,)
"""Columns that are too large to be read for nothing."""
_MADE_BY = {
    "POST /api/v1/submissions": models.Submission,
    "POST /api/v1/jobs": models.Job,
    "POST /api/v1/comparisons": models.ComparisonRow,
    "POST /api/v1/bisections": models.BisectionRow,
    "POST /api/v1/tokens": models.TokenRow,
    "POST /api/v1/enrolments": models.EnrolmentRow,
}
"""Calls that make something, whose lines in the audit log end with its id; nothing deletes it."""


def made_at_their_time(session: Session) -> Iterator[Breach]:
    """11: submissions, exclusions and lines of the audit log are of the time in their names."""
    for model, at in (
        (models.Submission, models.Submission.created_at),
        (models.AuditEvent, models.AuditEvent.at),
        (models.Exclusion, models.Exclusion.excluded_at),
    ):
        table = _table(model)
        query = select(table.c.id, table.c[at.key].label("at"))
        for row in _rows(session, table, query):
            if not names_moment(row.id, row.at):
                sentence = f"It is not of {row.at}, as its name tells."
                yield Breach(ROWS, f"{table.name} {row.id}", sentence)


def lost_parents(session: Session) -> Iterator[Breach]:
    """6 and 9: rows that refer to one that is not there."""
    for table in models.Base.metadata.sorted_tables:
        for constraint in table.foreign_key_constraints:
            parent = constraint.referred_table.name
            promise = 6 if (table.name, parent) == ("points", "results") else 9
            for row in session.execute(_orphans(table, constraint)):
                names = (f"{name} {row._mapping[f'of_{name}']}" for name in constraint.column_keys)
                sentence = f"Its {', '.join(names)} is in no row of {parent}."
                yield Breach(promise, _subject(table, tuple(table.primary_key), row), sentence)


@cache
def _orphans(table: Table, constraint: ForeignKeyConstraint) -> Select[Any]:
    parent = constraint.referred_table.alias("parent")
    pairs = [(key.parent, parent.c[key.column.name]) for key in constraint.elements]
    return (
        select(*table.primary_key, *(here.label(f"of_{here.name}") for here, _ in pairs))
        .outerjoin(parent, and_(*(here == there for here, there in pairs)))
        .where(pairs[0][1].is_(None), *(here.is_not(None) for here, _ in pairs))
        .limit(MOST)
    )


def wrong_digests(session: Session) -> Iterator[Breach]:
    """11: environments, label sets and series that are not named by what they hold."""
    named = (
        (models.EnvironmentRow, models.EnvironmentRow.facts),
        (models.LabelSet, models.LabelSet.labels),
    )
    for model, facts in named:
        table = _table(model)
        for row in _rows(session, table, select(table)):
            if record.facts_digest(row._mapping[facts.key]) != row.digest:
                subject = f"{table.name} {row.digest}"
                yield Breach(ROWS, subject, "It is not named by what it holds.")
    series = _table(models.SeriesRow)
    for row in _rows(session, series, select(series)):
        if _series_id(row) != row.id or key_of(row.case) != row.case_key:
            yield Breach(ROWS, f"series {row.id}", "It is not named by what defines it.")


def _series_id(row: Row[Any]) -> str:
    if row.source:
        facts = (row.case, row.metric, row.comparability, row.project)
        same = row.case.get("source") == row.source
        return imports.imported_series_id(*facts) if same else ""
    return record.series_id(row.case_key, row.metric, row.unit, row.comparability, row.project)


def places_of_revisions(session: Session) -> Iterator[Breach]:
    """11: a revision stands where a submission said, or where it was first seen."""
    table = _table(models.Revision)
    place = models.Job.spec["revision_at"].as_string()
    for page in pages(session, select(table), tuple(table.primary_key)):
        names = [row.name for row in page]
        said: dict[str, set[Any]] = {}
        query = select(models.Job.revision, place).where(
            models.Job.revision.in_(names), place.is_not(None)
        )
        for name, at in session.execute(query.distinct()):
            said.setdefault(name, set()).add(datetime.fromisoformat(at))
        measured = _imported_at(session, names, said)
        for row in page:
            dates = said.get(row.name, set())
            places = dates or {row.first_seen_at, *measured.get(row.name, ())}
            if row.dated != bool(dates) or row.ordered_at not in places:
                sentence = f"It stands at {row.ordered_at}, and nobody has said so."
                yield Breach(ROWS, f"revisions {row.name}", sentence)


def _imported_at(
    session: Session, names: Sequence[str], said: dict[str, set[Any]]
) -> dict[str, set[Any]]:
    """Add the dates of commits that imports say; when the imported points were measured."""
    row, point = models.ImportedPoint, models.Point
    query = (
        select(row.revision, row.committed_at, point.measured_at)
        .join(point, (point.result_id == row.id) & (point.series_id == row.series_id))
        .where(row.revision.in_(names))
        .distinct()
    )
    measured: dict[str, set[Any]] = {}
    for name, committed_at, measured_at in session.execute(query):
        measured.setdefault(name, set()).add(measured_at)
        if committed_at is not None:
            said.setdefault(name, set()).add(committed_at)
    return measured


def what_was_made_is_there(session: Session) -> Iterator[Breach]:
    """9: what the audit log says that somebody made is there; nothing deletes it."""
    table = _table(models.AuditEvent)
    query = select(table).where(table.c.action.in_(_MADE_BY))
    for page in pages(session, query, tuple(table.primary_key)):
        made: dict[str, set[str]] = {}
        for row in page:
            made.setdefault(row.action, set()).add(row.object.rpartition(" -> ")[2])
        for action, ids in made.items():
            model = _MADE_BY[action]
            name_of = _table(model).c.id
            there = set(session.scalars(select(name_of).where(name_of.in_(ids))))
            for name in sorted(ids - there):
                sentence = f"The audit log says that it was made ({action}), and it is gone."
                yield Breach(9, f"{model.__tablename__} {name}", sentence)


def thresholds_as_chosen(session: Session) -> Iterator[Breach]:
    """9 and 11: the thresholds are those that the audit log says were set last, and not removed."""
    table = _table(models.AuditEvent)
    calls = ("PUT /api/v1/thresholds", "DELETE /api/v1/thresholds/{threshold_id}")
    logged: dict[str, str] = {}
    query = select(table).where(table.c.action.in_(calls))
    for page in pages(session, query, tuple(table.primary_key)):
        for row in page:
            _, arrow, chosen = row.object.partition(" -> ")
            name = chosen.split(" ")[0] if arrow else row.object.rpartition("/")[2]
            logged[name] = chosen
    stored = {
        rule.id: threshold_table.said(rule) for rule in threshold_table.list_thresholds(session)
    }
    for name in sorted(stored.keys() | logged.keys()):
        chosen, there = logged.get(name, ""), stored.get(name, "")
        if chosen != there:
            sentence = (
                f"It is {there or 'gone'}; the audit log says {chosen or 'that nobody set it'}."
            )
            yield Breach(ROWS if chosen and there else 9, f"thresholds {name}", sentence)


def numbered_without_gap(session: Session) -> Iterator[Breach]:
    """9: no line of a log is gone. Only of SQLite: PostgreSQL leaves gaps by itself."""
    if session.get_bind().dialect.name != "sqlite":
        return
    for model in (models.JobEvent, models.FindingEvent):
        counted = select(func.count(), func.min(model.id), func.max(model.id))
        count, first, last = session.execute(counted).one()
        if count and (first, last) != (1, count):
            sentence = f"It has {count} lines, which are numbered from {first} to {last}."
            yield Breach(9, f"table {model.__tablename__}", sentence)


def who_acted(session: Session) -> Iterator[Breach]:
    """11: the audit log names tokens as they are."""
    table, tokens = _table(models.AuditEvent), _table(models.TokenRow)
    query = (
        select(table.c.id, table.c.actor, table.c.token_id, tokens.c.kind, tokens.c.name)
        .outerjoin(tokens, tokens.c.id == table.c.token_id)
        .where(table.c.token_id.is_not(None))
    )
    for row in _rows(session, table, query):
        if row.actor != f"{row.kind} {row.name}"[:100]:
            sentence = f"{row.actor} acted with token {row.token_id}, of {row.kind} {row.name}."
            yield Breach(ROWS, f"audit_events {row.id}", sentence)


def is_unreadable(error: DBAPIError) -> bool:
    """Return True if SQLite refused a stored value, not the query. PostgreSQL stores none."""
    said = str(error.orig).lower()
    return "malformed json" in said or "could not decode" in said


def unreadable(session: Session) -> Iterator[Breach]:
    """11: rows that hold what their columns cannot, such as text where a time must be."""
    for table in models.Base.metadata.sorted_tables:
        key = tuple(table.primary_key)
        columns = [column for column in table.c if column.name not in _BODIES]
        for row in _rows(session, table, select(*key)):
            same = (column == row._mapping[column.name] for column in key)
            try:
                session.execute(select(*columns).where(*same)).all()
            except Exception as error:
                if isinstance(error, DBAPIError) and not is_unreadable(error):
                    raise
                sentence = f"It cannot be read: {type(error).__name__}: {error}"
                yield Breach(ROWS, _subject(table, key, row), sentence)


def _rows(session: Session, table: Table, query: Select[*tuple[Any, ...]]) -> Iterator[Row[Any]]:
    for page in pages(session, query, tuple(table.primary_key)):
        yield from page


def _subject(table: Table, key: Sequence[Column[Any]], row: Row[Any]) -> str:
    return f"{table.name} {' '.join(str(row._mapping[column.name]) for column in key)}"


def _table(model: type[models.Base]) -> Table:
    return cast(Table, model.__table__)
