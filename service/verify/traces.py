"""What must be true of every trace: it is what was answered for, and somebody's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.models import ResultRow, TraceRow
from service.verify.values import Breach


def every_trace(session: Session) -> Iterator[Breach]:
    """What is wrong with each of them, one in memory at a time."""
    names = (
        select(TraceRow.result_id, TraceRow.digest, ResultRow.id)
        .outerjoin(ResultRow, ResultRow.id == TraceRow.result_id)
        .order_by(TraceRow.result_id)
    )
    for result_id, digest, there in session.execute(names).all():
        subject = f"the trace of result {result_id}"
        if there is None:
            yield Breach(9, subject, "It belongs to no result.")
        body = session.scalars(select(TraceRow.body).where(TraceRow.result_id == result_id)).one()
        if hashlib.sha256(body).hexdigest() != digest:
            yield Breach(2, subject, "It is not what was answered for: the digest differs.")
