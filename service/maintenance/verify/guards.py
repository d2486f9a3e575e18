"""The database's own guards: triggers, their functions, unique indexes and constraints.

Triggers and functions are compared by their text with what the migrations make: one of the right
name that does nothing guards nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    ForeignKeyConstraint,
    Inspector,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    inspect,
    text,
)
from sqlalchemy.orm import Session

from service.maintenance.verify.values import Breach
from service.models import Base

GUARDS = 12
_MADE = re.compile(r"\s*CREATE (TRIGGER|FUNCTION) (\w+)")
_BODY = re.compile(r"\$\$(.*)\$\$", re.DOTALL)
_PARAPHRASE = frozenset({"in", "any", "array", "text", "character", "varying"})
"""Words in which PostgreSQL says ``in ('a', 'b')`` again."""
_ON = re.compile(r" ON (\w+)")

_TRIGGERS_SQLITE = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
_TRIGGERS_POSTGRESQL = text(
    "SELECT tgname, pg_get_triggerdef(pg_trigger.oid, true) FROM pg_trigger "
    "JOIN pg_class ON pg_class.oid = tgrelid "
    "WHERE NOT tgisinternal AND pg_table_is_visible(tgrelid)"
)
_FUNCTIONS = text(
    "SELECT proname, prosrc FROM pg_proc JOIN pg_language ON pg_language.oid = prolang "
    "WHERE proname LIKE 'guard\\_%' AND pg_function_is_visible(pg_proc.oid) "
    "AND lanname = 'plpgsql' AND proconfig IS NULL AND NOT prosecdef"
)
_SWITCHED_OFF = text(
    "SELECT DISTINCT relname, CASE WHEN tgisinternal THEN 'foreign keys' ELSE tgname END "
    "FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    "WHERE tgenabled NOT IN ('O', 'A') AND pg_table_is_visible(tgrelid) ORDER BY 1, 2"
)
_ROLE = text("SELECT current_setting('session_replication_role')")


def wrong_guards(session: Session) -> Iterator[Breach]:
    """12: guards that are missing, switched off, or say something else than this version's."""
    kind = session.get_bind().dialect.name
    expected = made_by_migrations(kind)
    if kind == "sqlite":
        yield from _compare("trigger", _of(expected, "TRIGGER"), _stored(session, _TRIGGERS_SQLITE))
    else:
        bodies = {name: _body(made) for name, made in _of(expected, "FUNCTION").items()}
        yield from _compare("function", bodies, _stored(session, _FUNCTIONS))
        triggers = _stored(session, _TRIGGERS_POSTGRESQL)
        yield from _compare("trigger", _of(expected, "TRIGGER"), triggers)
        yield from _switched_off(session)
    yield from _constraints(session)


def strange_triggers(session: Session) -> list[str]:
    """Names of triggers that this version does not make, such as those of a replication tool."""
    kind = session.get_bind().dialect.name
    question = _TRIGGERS_SQLITE if kind == "sqlite" else _TRIGGERS_POSTGRESQL
    known = _of(made_by_migrations(kind), "TRIGGER")
    return sorted(_stored(session, question).keys() - known.keys())


@cache
def made_by_migrations(kind: str) -> dict[tuple[str, str], str]:
    """The newest statement that makes each trigger and function, by what it makes and its name."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - Alembic only when needed

    from service.database.migrate import configuration  # noqa: PLC0415

    scripts = list(ScriptDirectory.from_config(configuration()).walk_revisions())
    bodies: dict[tuple[str, str], str] = {}
    for script in reversed(scripts):
        guards = getattr(script.module, "guards", None)
        for statement in guards(kind) if guards else ():
            made = _MADE.match(statement)
            assert made is not None, f"{script.revision} makes something else than guards"
            bodies[made[1], made[2]] = statement
    return bodies


def _of(made: Mapping[tuple[str, str], str], what: str) -> dict[str, str]:
    return {name: statement for (kind, name), statement in made.items() if kind == what}


def _body(statement: str) -> str:
    match = _BODY.search(statement)
    assert match is not None
    return match[1]


def _stored(session: Session, question: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in session.execute(question)}


def _compare(what: str, expected: Mapping[str, str], actual: Mapping[str, str]) -> Iterator[Breach]:
    for name, statement in expected.items():
        on = _ON.search(statement)
        subject = f"{what} {name}" + (f" on {on[1]}" if on and what == "trigger" else "")
        if name not in actual:
            yield Breach(GUARDS, subject, "It is not there.")
        elif actual[name].split() != statement.split():
            yield Breach(GUARDS, subject, "It is there, and does something else.")


def _switched_off(session: Session) -> Iterator[Breach]:
    for table, name in session.execute(_SWITCHED_OFF):
        yield Breach(GUARDS, f"table {table}", f"Its guard is switched off: {name}.")
    role = session.execute(_ROLE).scalar_one()
    if role != "origin":
        sentence = f"session_replication_role is {role}, so no trigger fires for this user."
        yield Breach(GUARDS, "the database", sentence)


def _constraints(session: Session) -> Iterator[Breach]:
    """Unique indexes, keys and constraints of the models that are not there as they should be."""
    there = _there(inspect(session.connection()))
    for table in Base.metadata.sorted_tables:
        if table.name not in there:
            yield Breach(GUARDS, f"table {table.name}", "It is not there.")
            continue
        for name, (what, terms) in sorted(_declared(table).items()):
            if there[table.name].get(name) != terms:
                yield Breach(GUARDS, f"table {table.name}", f"It lacks its {what} {name}.")


def _declared(table: Table) -> dict[str, tuple[str, object]]:
    """By name: in words what it is, and what tells it from another of that name."""
    expected: dict[str, tuple[str, object]] = {}
    for index in table.indexes:
        if index.unique:
            where = index.dialect_options["sqlite"]["where"]
            expected[str(index.name)] = "unique index", (_names(index.columns), _words(where))
    for constraint in table.constraints:
        name = str(constraint.name)
        match constraint:
            case UniqueConstraint():
                expected[name] = "unique constraint", (_names(constraint.columns), _words(None))
            case ForeignKeyConstraint():
                targets = tuple(element.target_fullname for element in constraint.elements)
                expected[name] = "foreign key", (_names(constraint.columns), targets)
            case CheckConstraint():
                expected[name] = "constraint", _words(constraint.sqltext)
            case PrimaryKeyConstraint():
                expected[name] = "primary key", _names(constraint.columns)
    return expected


def _there(inspector: Inspector) -> dict[str, dict[str, object]]:
    """By table what `_declared` tells of each name."""
    there: dict[str, dict[str, object]] = {}
    for (_, table), primary in inspector.get_multi_pk_constraint().items():
        there[table] = {str(primary["name"]): tuple(primary["constrained_columns"])}
    for (_, table), indexes in inspector.get_multi_indexes().items():
        there[table] |= {str(part["name"]): _unique(part) for part in indexes if part["unique"]}
    for (_, table), uniques in inspector.get_multi_unique_constraints().items():
        there[table] |= {str(part["name"]): _unique(part) for part in uniques}
    for (_, table), keys in inspector.get_multi_foreign_keys().items():
        there[table] |= {str(part["name"]): _foreign(part) for part in keys}
    for (_, table), checks in inspector.get_multi_check_constraints().items():
        there[table] |= {str(part["name"]): _words(part["sqltext"]) for part in checks}
    return there


def _unique(constraint: Any) -> object:
    options = constraint.get("dialect_options", {})
    where = next((said for name, said in options.items() if name.endswith("_where")), None)
    return tuple(constraint["column_names"]), _words(where)


def _foreign(key: Any) -> object:
    targets = tuple(f"{key['referred_table']}.{name}" for name in key["referred_columns"])
    return tuple(key["constrained_columns"]), targets


def _names(columns: Iterable[Any]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def _words(condition: object) -> frozenset[str]:
    said = "" if condition is None else str(condition).lower()
    return frozenset(re.findall(r"\w+", said)) - _PARAPHRASE
