"""Runs migrations on the connection that `service.database.migrate` hands over."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from service.models import Base

connection = context.config.attributes["connection"]
assert isinstance(connection, Connection)
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    render_as_batch=True,
    compare_type=True,
    # SQLite can roll DDL back too, as long as the transaction is begun by hand; it is.
    transactional_ddl=True,
)
context.run_migrations()
