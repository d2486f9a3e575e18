"""Alembic migrations, run the same on SQLite and PostgreSQL."""
