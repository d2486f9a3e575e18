"""Connections, sessions, health and migrations of the database."""
