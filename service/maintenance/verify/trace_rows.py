"""Checks every stored trace against the digest and the size of its row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.maintenance.verify.values import Breach
from service.models import TraceRow


def every_trace(session: Session) -> Iterator[Breach]:
    """Yield a breach for each trace that differs from its row; one trace at a time is in memory."""
    names = select(TraceRow.result_id, TraceRow.digest, TraceRow.size_b)
    for result_id, digest, size_b in session.execute(names.order_by(TraceRow.result_id)).all():
        body = session.scalars(select(TraceRow.body).where(TraceRow.result_id == result_id)).one()
        if hashlib.sha256(body).hexdigest() != digest or len(body) != size_b:
            subject = f"the trace of result {result_id}"
            yield Breach(2, subject, "It is not what was answered for: digest or size differs.")
