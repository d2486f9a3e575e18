"""Two runs by their kernels: what is new, gone, slower or faster, and when the device idled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from benchmarks.contracts import Id
from benchmarks.diagnosis import kernel_changes
from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.dashboard import rendering
from service.history import replicates
from service.history.queries import load_result
from service.history.types import StoredResult

router = rendering.page_router(rendering.COUNTED)

MOST_ROWS = 80
"""Kernels that a table shows; those left out differ least."""


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """A run and the reason why its kernels cannot be compared; empty if they can."""

    stored: StoredResult
    missing: str


@dataclass(frozen=True, slots=True)
class ShownKernels:
    """The kernels of two runs, the largest difference first."""

    baseline: ProfiledRun
    contender: ProfiledRun
    figures: tuple[kernel_changes.FigureChange, ...]
    changes: tuple[kernel_changes.KernelChange, ...]
    left_out: int


@router.get("/compare/kernels")
@Permission.READ.required
def compare_kernels(
    request: Request,
    session: Reading,
    now: Now,
    baseline: Annotated[Id | Literal[""], Query()] = "",
    contender: Annotated[Id | Literal[""], Query()] = "",
) -> HTMLResponse:
    """Show the kernels of two runs side by side, the largest difference first."""
    ids = [one for one in (baseline, contender) if one]
    sides = [profiled_run(session, load_result(session, one)) for one in ids]
    shown = compared(sides[0], sides[1], MOST_ROWS) if len(sides) == 2 else None
    return rendering.render(request, "kernels.html", now=now, sides=sides, shown=shown)


def profiled_run(session: Session, stored: StoredResult) -> ProfiledRun:
    """Give a run with the other processes of its case, the first of which was profiled."""
    whole = replicates.with_others(session, stored)
    return ProfiledRun(whole, kernel_changes.missing(whole.result.profile))


def compared(baseline: ProfiledRun, contender: ProfiledRun, most: int) -> ShownKernels | None:
    """Hold two runs against each other; None if one has no kernels."""
    if baseline.missing or contender.missing:
        return None
    results = [one.stored.result for one in (baseline, contender)]
    profiles = [one.profile for one in results]
    changes = kernel_changes.changes(*profiles)
    return ShownKernels(
        baseline=baseline,
        contender=contender,
        figures=(*kernel_changes.of_full(*results), *kernel_changes.figures(*profiles)),
        changes=tuple(changes[:most]),
        left_out=len(changes[most:]),
    )
