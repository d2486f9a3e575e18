"""What was measured."""

from __future__ import annotations

from fastapi import APIRouter

from benchmarks.contracts import Line, Name, Revision, Status
from service import results
from service.api.answers import problems
from service.api.dependencies import Cursor, DatabaseSession, Id, Limit, Listing
from service.intake import StrictRoute
from service.models import ResultRow
from service.results import ResultSummary, StoredResult

router = APIRouter(prefix="/results", tags=["results"], route_class=StrictRoute)


@router.get("")
def list_results(
    session: DatabaseSession,
    revision: Revision | None = None,
    case: Line | None = None,
    worker: Name | None = None,
    status: Status | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listing[ResultSummary]:
    """List results, the last to arrive first; `case` is a case's key."""
    filters = {
        ResultRow.revision: revision,
        ResultRow.case_key: case,
        ResultRow.worker: worker,
        ResultRow.status: status,
    }
    wanted = [column == value for column, value in filters.items() if value is not None]
    return Listing.of(results.list_results(session, *wanted, after=cursor, limit=limit))


@router.get("/{result_id}", responses=problems(404))
def read_result(result_id: Id, session: DatabaseSession) -> StoredResult:
    """Read a whole result: every sample, trace and fact."""
    return results.load_result(session, result_id)
