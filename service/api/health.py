"""The route that reports the service's health."""

from __future__ import annotations

from typing import Literal

from fastapi import Request
from pydantic import BaseModel

from benchmarks.version import installed
from service.api.dependencies import get_database
from service.api.router import Noun
from service.auth.permissions import Permission
from service.maintenance.background import AnalysisProcess

router = Noun("", "health")


class Health(BaseModel):
    """The service works."""

    status: Literal["ok"] = "ok"
    version: str
    database: str
    """``sqlite`` or ``postgresql``."""
    migrated: bool = True
    age_s: float
    """Seconds since the database was last read and written; it is not written for each request."""
    analysis: Literal["running", "stopped", "elsewhere"]
    """State of this replica's analysis process; ``elsewhere``: its settings start none here."""


@router.get("/health")
@Permission.OPEN.required
async def read_health(request: Request) -> Health:
    """Say whether the database can be read and written; 503 with one sentence if not.

    A row is written to find out, at most once in five seconds however many ask; `age_s` says how
    long ago that was.
    """
    database = get_database(request)
    age_s = await request.app.state.checkup.now()
    analysis: AnalysisProcess | None = request.app.state.analysis
    return Health(
        version=installed(),
        database=database.kind,
        age_s=round(age_s, 1),
        analysis="elsewhere" if not analysis else "running" if analysis.running else "stopped",
    )
