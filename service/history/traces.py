"""Profilers' traces: each kept once beside its result, and given back as it came.

A trace comes after its result, in a request of its own, because nothing that is wrong with a trace
may cost a result. Of a case it belongs to the first replicate.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import cast

from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from service.database.session import insert_if_absent
from service.errors import Conflict, NotFound
from service.history.artifacts import ArtifactStore
from service.history.types import KeptTrace, StoredResult, TraceState
from service.models import ResultRow, TraceRow

_TRACES = cast(Table, TraceRow.__table__)
_NOT_HERE = (
    "The worker has not delivered it, which it tries after each of its jobs (its log says more), "
    "or it is older than traces are kept."
)
_TOO_LATE = "The result came when its attempt was over, and so would its trace: none is kept."


def keep_trace(
    session: Session, result_id: str, digest: str, size_b: int, now: datetime
) -> KeptTrace:
    """Name the artifact that is the trace of a result, if it has none.

    Raises:
        Conflict: there is another one, which stays.
    """
    row = {"result_id": result_id, "digest": digest, "size_b": size_b, "received_at": now}
    created = insert_if_absent(session, _TRACES, row)
    if not created and _state(session, result_id) != TraceState(size_b, digest):
        raise Conflict("This result has another trace, which stays.")
    return KeptTrace(result_id, size_b, created)


def load_trace(session: Session, artifacts: ArtifactStore, result_id: str) -> bytes:
    """The trace of a result.

    Raises:
        NotFound: there is no such result, or it has no trace.
        ArtifactsUnavailable: it cannot be read.
    """
    if session.get(ResultRow, result_id) is None:
        raise NotFound("There is no such result; GET /api/v1/results lists them.")
    state = _state(session, result_id)
    body = artifacts.get(state.digest) if state and state.digest else None
    if body is None:
        raise NotFound("This result has no trace; its `trace`, as the result is read, says why.")
    return body


def with_trace(session: Session, stored: StoredResult) -> StoredResult:
    """A result with word of its trace, if one was asked for."""
    if not stored.result.protocol.trace:
        return stored
    state = _state(session, stored.id)
    if state is None:
        missing = _NOT_HERE if stored.counted else _TOO_LATE
        state = TraceState(absent=stored.result.trace_absent or missing)
    return replace(stored, trace=state)


def _state(session: Session, result_id: str) -> TraceState | None:
    kept = select(TraceRow.size_b, TraceRow.digest).where(TraceRow.result_id == result_id)
    row = session.execute(kept).first()
    return TraceState(row.size_b, row.digest) if row else None
