"""What was measured."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from pydantic import StringConstraints, TypeAdapter

from benchmarks.contracts import Contract, Line, Name, Revision, Status
from benchmarks.trace_file import GZIP
from service import advice, levels, results
from service.api.answers import problems
from service.api.dependencies import Cursor, DatabaseSession, Id, Limit, Listing, Now
from service.api.findings import Actor
from service.api.noun import noun
from service.levels import ExclusionView
from service.models import ResultRow
from service.results import ResultSummary, StoredResult

router = noun("/results", "results")

_WRITTEN = TypeAdapter(StoredResult)
_BINARY = {"type": "string", "format": "binary"}
Reason = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]+$")]


class ExclusionRequest(Contract):
    """Why a result is to be judged no more, and who says so."""

    reason: Reason
    actor: Actor


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


@router.get("/{result_id}", response_model=StoredResult, responses=problems(404))
def read_result(result_id: Id, session: DatabaseSession) -> Response:
    """Read a whole result: every sample and fact; `trace` says whether the profiler's is here.

    All of it is as it was posted but `verdict.suggestions`: these are made when they are read, so
    that they rest on what was measured beside it by now.
    """
    stored = advice.advised(session, results.load_result(session, result_id))
    # Written here, where few at once do: the values of a large result are gone when others begin.
    written = _WRITTEN.dump_json(results.with_trace(session, stored))
    return Response(written, media_type="application/json")


@router.get(
    "/{result_id}/trace",
    response_class=Response,
    responses={200: {"content": {GZIP: {"schema": _BINARY}}}, **problems(404)},
)
def read_trace(result_id: Id, session: DatabaseSession) -> Response:
    """Download the profiler's Chrome trace of a result, JSON packed with gzip."""
    owner, body = results.load_trace(session, result_id)
    name = f'attachment; filename="trace-{owner}.json.gz"'
    return Response(body, media_type=GZIP, headers={"Content-Disposition": name})


@router.get("/{result_id}/exclusions", responses=problems(404))
def list_exclusions(result_id: Id, session: DatabaseSession) -> Listing[ExclusionView]:
    """List who took a result out of its histories, when and why, and who put it back."""
    return Listing(items=levels.exclusions_of(session, result_id), next_cursor=None)


@router.put("/{result_id}/exclusion", responses=problems(404, 409))
def exclude(
    result_id: Id, request: ExclusionRequest, session: DatabaseSession, now: Now
) -> ExclusionView:
    """Take a result out of its histories: it stays, is shown, and is judged no more."""
    return levels.exclude(session, result_id, request.reason, request.actor, now)


@router.delete("/{result_id}/exclusion", responses=problems(404))
def include(
    result_id: Id, actor: Annotated[Actor, Query()], session: DatabaseSession, now: Now
) -> ExclusionView:
    """Put an excluded result back into its histories."""
    return levels.include(session, result_id, actor, now)
