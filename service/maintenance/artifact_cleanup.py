"""Deletes artifacts that are older than their kind is kept, or that nothing names."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from itertools import islice

from sqlalchemy import delete, select

from benchmarks.artifact_kinds import ArtifactKind
from service.database.session import Database, now_of
from service.history.artifacts import ArtifactStore
from service.models import ArtifactRow

EVERY_S = 3_600.0
UNNAMED = timedelta(hours=2)
"""After so long an artifact that no row names is deleted: a body is put before its row, and a
backup copies the artifacts after the database."""
_AT_ONCE = 200


class ArtifactCleanup:
    """Cleans up once an hour; several replicas may do so at once."""

    def __init__(
        self, database: Database, store: ArtifactStore, kept: Mapping[ArtifactKind, timedelta]
    ) -> None:
        """``kept``: for how long each kind stays; one that is missing stays for good."""
        self._database = database
        self._store = store
        self._kept = kept
        self._due_s = 0.0

    def look(self) -> None:
        """Clean up if it is time."""
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + EVERY_S
            self.clean()

    def clean(self) -> None:
        """Delete unnamed artifacts, and then rows, whose artifacts are deleted an hour later.

        Raises:
            ArtifactsUnavailable: the store cannot be used.
        """
        found = self._store.older_than(UNNAMED)
        while some := list(islice(found, _AT_ONCE)):
            with self._database.reading() as session:
                named = select(ArtifactRow.digest).where(ArtifactRow.digest.in_(some))
                kept = set(session.scalars(named))
            for digest in some:
                if digest not in kept:
                    self._store.delete(digest, UNNAMED)
        for kind, lasts in self._kept.items():
            with self._database.writing() as session:
                old = ArtifactRow.received_at < now_of(session) - lasts
                session.execute(delete(ArtifactRow).where(ArtifactRow.kind == kind, old))
