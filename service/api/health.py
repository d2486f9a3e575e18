"""Whether the service can work."""

from __future__ import annotations

from typing import Literal

from fastapi import Request
from pydantic import BaseModel

from benchmarks.version import installed
from service.api.noun import noun
from service.database import get_database

router = noun("", "health")


class Health(BaseModel):
    """The service works."""

    status: Literal["ok"] = "ok"
    version: str
    database: str
    """``sqlite`` or ``postgresql``."""
    migrated: bool = True


@router.get("/health")
async def read_health(request: Request) -> Health:
    """Say whether the database can be read and written; 503 with one sentence if not."""
    database = get_database(request)
    await request.app.state.checkup.now()
    return Health(version=installed(), database=database.kind)
