"""The page of two runs' modules side by side."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from benchmarks.contracts import Id, Layers
from benchmarks.diagnosis import module_times
from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.dashboard import figures, rendering
from service.history import replicates
from service.history.queries import load_result
from service.history.types import StoredResult

router = rendering.page_router(rendering.COUNTED)

MOST_ROWS = 40
"""Modules that the table shows; those left out differ least."""


@router.get("/compare/modules")
@Permission.READ.required
def compare_modules(
    request: Request,
    session: Reading,
    now: Now,
    baseline: Annotated[Id | Literal[""], Query()] = "",
    contender: Annotated[Id | Literal[""], Query()] = "",
) -> HTMLResponse:
    """Show the modules of two runs side by side, the largest difference first."""
    ids = {"Baseline": baseline, "Contender": contender}
    sides = [(side, *_run(session, one)) for side, one in ids.items() if one]
    known = [layers for _, _, layers in sides if layers is not None]
    changes = module_times.changes(*known) if len(known) == 2 else []
    return rendering.render(
        request,
        "modules.html",
        now=now,
        sides=sides,
        changes=changes[:MOST_ROWS],
        left_out=len(changes[MOST_ROWS:]),
        own_s=module_times.own_s,
        step_s=module_times.step_s,
        icicle=figures.module_changes(*known) if len(known) == 2 else None,
    )


def _run(session: Session, result_id: str) -> tuple[StoredResult, Layers | None]:
    """A run, and the layers of its first process."""
    stored = replicates.with_others(session, load_result(session, result_id))
    return stored, stored.result.profile.layers
