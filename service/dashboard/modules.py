"""The page of two runs' modules side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from benchmarks.contracts import Id, Layers
from benchmarks.diagnosis import module_times
from service.api.dependencies import DatabaseSession as Reading
from service.api.dependencies import Now
from service.auth.permissions import Permission, needs
from service.dashboard import figures, rendering, runs
from service.history import replicates
from service.history.queries import load_result
from service.history.types import StoredResult

router = rendering.page_router(rendering.COUNTED)

MOST_ROWS = 40
"""Modules that the table shows; those left out differ least."""


@router.get("/compare/modules")
@needs(Permission.READ)
def compare_modules(
    request: Request,
    session: Reading,
    now: Now,
    baseline: Annotated[Id, Query()],
    contender: Annotated[Id, Query()],
) -> HTMLResponse:
    """Show the modules of two runs side by side, the largest difference first."""
    before, layers_before = _run(session, baseline)
    after, layers_after = _run(session, contender)
    changes, figure = [], None
    if layers_before and layers_after:
        changes = module_times.changes(layers_before, layers_after)
        figure = figures.module_changes(layers_before, layers_after)
    return rendering.render(
        request,
        "modules.html",
        now=now,
        sides=(("Baseline", before, layers_before), ("Contender", after, layers_after)),
        changes=changes[:MOST_ROWS],
        left_out=len(changes[MOST_ROWS:]),
        own_s=module_times.own_s,
        step_s=module_times.step_s,
        icicle=figure,
    )


def _run(session: Session, result_id: str) -> tuple[StoredResult, Layers | None]:
    """A run, and the layers of its first process."""
    stored = replicates.with_others(session, load_result(session, result_id))
    return stored, runs.profile(stored.result).layers
