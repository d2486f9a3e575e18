"""Traces and logs: each kept once beside its result, and given back as it came.

They come after their result, in requests of their own, because nothing that is wrong with them
may cost a result. Of a case a trace belongs to the first replicate.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import cast

from sqlalchemy import Table
from sqlalchemy.orm import Session

from benchmarks.artifact_kinds import ArtifactKind
from service.database.session import found, insert_if_absent
from service.history.artifacts import ArtifactStore
from service.history.types import KeptArtifact, StoredResult, TraceState
from service.models import ArtifactRow, ResultRow
from service.schemas.errors import Conflict, NotFound

_ARTIFACTS = cast(Table, ArtifactRow.__table__)
_NOT_HERE = (
    "The worker has not delivered it, which it tries after each of its jobs (its log says more), "
    "or it is older than traces are kept."
)
_TOO_LATE = "The result came when its attempt was over, and so would its trace: none is kept."


_NONE = {
    ArtifactKind.TRACE: "This result has no trace; its `trace`, as the result is read, says why.",
    ArtifactKind.LOG: "This result has no log but the end of it in its `log_tail`.",
}


def keep(
    session: Session, result_id: str, kind: ArtifactKind, digest: str, size_b: int, now: datetime
) -> KeptArtifact:
    """Name the artifact that is the trace or the log of a result, if it has none.

    Raises:
        Conflict: there is another one, which stays.
    """
    row = {"result_id": result_id, "kind": kind, "digest": digest, "size_b": size_b}
    created = insert_if_absent(session, _ARTIFACTS, row | {"received_at": now})
    if not created and _state(session, result_id, kind) != TraceState(size_b, digest):
        raise Conflict(f"This result has another {kind}, which stays.")
    return KeptArtifact(result_id, size_b, created)


def digest_of(session: Session, result_id: str, kind: ArtifactKind) -> str:
    """The name of a result's trace or log among the artifacts.

    Raises:
        NotFound: there is no such result, or it has none.
    """
    found(session, ResultRow, result_id)
    state = _state(session, result_id, kind)
    if state is None or state.digest is None:
        raise NotFound(_NONE[kind])
    return state.digest


def load(artifacts: ArtifactStore, digest: str, kind: ArtifactKind) -> bytes:
    """The body of an artifact.

    Raises:
        NotFound: it is gone.
        ArtifactsUnavailable: it cannot be read.
    """
    body = artifacts.get(digest)
    if body is None:
        raise NotFound(_NONE[kind])
    return body


def with_artifacts(session: Session, stored: StoredResult) -> StoredResult:
    """A result with word of its log, and of its trace if one was asked for."""
    log = _state(session, stored.id, ArtifactKind.LOG)
    known = replace(stored, log_size_b=log.size_b if log else None)
    if not stored.result.protocol.trace:
        return known
    state = _state(session, stored.id, ArtifactKind.TRACE)
    if state is None:
        missing = _NOT_HERE if stored.counted else _TOO_LATE
        state = TraceState(absent=stored.result.trace_absent or missing)
    return replace(known, trace=state)


def _state(session: Session, result_id: str, kind: ArtifactKind) -> TraceState | None:
    row = session.get(ArtifactRow, (result_id, kind))
    return TraceState(row.size_b, row.digest) if row else None
