"""Databases of PostgreSQL that tests hand on to each other, as they were when they were migrated.

To make one from a template and drop it costs a tenth of a second of a processor, hundreds of times
in a run; to put one back to its first rows costs a hundredth of that. One whose tables, columns,
triggers or functions a test has changed is not handed on.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from builders.postgres_server import PostgresServer

_FIRST = "first"
_LARGE_B = 2**18
"""From this size on a table is truncated: its dead rows would be read by every later test."""
_OTHERS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_TABLES = """
    SELECT relname, pg_table_size(oid) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
"""
_FIRST_TABLES = f"SELECT tablename FROM pg_tables WHERE schemaname = '{_FIRST}'"
_COUNT_ANEW = """
    SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
    FROM pg_sequences WHERE schemaname = 'public'
"""
_SCHEMA = """
    WITH ours AS (
        SELECT oid, relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace
    )
    SELECT md5(string_agg(told, ';' ORDER BY told)) FROM (
        SELECT concat_ws(' ', relname, relkind) AS told FROM ours
        UNION ALL
        SELECT concat_ws(' ', attrelid, attname, atttypid, attnotnull, atttypmod)
        FROM pg_attribute WHERE attrelid IN (SELECT oid FROM ours) AND attnum > 0
        UNION ALL
        SELECT concat_ws(' ', tgrelid, tgname, tgenabled, tgfoid)
        FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM ours)
        UNION ALL
        SELECT concat_ws(' ', conrelid, conname, convalidated, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        UNION ALL
        SELECT concat_ws(' ', adrelid, adnum, pg_get_expr(adbin, adrelid))
        FROM pg_attrdef WHERE adrelid IN (SELECT oid FROM ours)
        UNION ALL
        SELECT concat_ws(' ', setrole, setconfig) FROM pg_db_role_setting
        JOIN pg_database ON pg_database.oid = setdatabase AND datname = current_database()
        UNION ALL
        SELECT concat_ws(' ', oid, proname, md5(prosrc)) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace
        UNION ALL
        SELECT version_num FROM alembic_version
    ) AS each
"""


class LentDatabases:
    """Lends databases like ``template`` of one server; `_FIRST` is a schema with what it holds."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._free: list[str] = []
        self._whole: dict[str, str] = {}
        """The schema of each database as it was made."""

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The name of a database like new that nobody else uses meanwhile."""
        name = self._free.pop() if self._free else self._made()
        try:
            yield name
        finally:
            if self._like_new(name):
                self._free.append(name)
            else:
                self._server.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _made(self) -> str:
        name = f"t{uuid.uuid4().hex}"
        self._server.run(f"CREATE DATABASE {name} TEMPLATE template STRATEGY file_copy")
        with psycopg.connect(self._server.url(name)) as connection:
            _keep_first_rows(connection)
            self._whole[name] = _schema_of(connection)
        return name

    def _like_new(self, name: str) -> bool:
        """Put a database back; say whether that was possible."""
        try:
            with psycopg.connect(self._server.url(name)) as connection:
                connection.execute(_OTHERS)
                if _schema_of(connection) != self._whole[name]:
                    return False
                _put_back(connection)
        except psycopg.Error:  # a test dropped it, or renamed what is asked for
            return False
        return True


def _keep_first_rows(connection: psycopg.Connection) -> None:
    connection.execute(f"CREATE SCHEMA {_FIRST}")
    for name, _ in connection.execute(_TABLES).fetchall():
        if connection.execute(f'SELECT FROM "{name}" LIMIT 1').fetchone() is not None:
            connection.execute(f'CREATE TABLE {_FIRST}."{name}" AS TABLE "{name}"')


def _schema_of(connection: psycopg.Connection) -> str:
    row = connection.execute(_SCHEMA).fetchone()
    assert row is not None
    return str(row[0])


def _put_back(connection: psycopg.Connection) -> None:
    connection.execute("SET LOCAL session_replication_role = replica")  # our guards refuse it
    tables = connection.execute(_TABLES).fetchall()
    small = [name for name, size_b in tables if size_b < _LARGE_B]
    large = [name for name, size_b in tables if size_b >= _LARGE_B]
    connection.execute("; ".join(f'DELETE FROM "{name}"' for name in small))
    if large:
        connection.execute(f"TRUNCATE {', '.join(large)} CASCADE")
    for (name,) in connection.execute(_FIRST_TABLES).fetchall():
        connection.execute(f'INSERT INTO "{name}" TABLE {_FIRST}."{name}"')
    connection.execute(_COUNT_ANEW)
