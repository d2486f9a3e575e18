"""The routes of results: list, read, exclude and include them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import StringConstraints, TypeAdapter
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.artifact_kinds import GZIP, ArtifactKind
from service.api.dependencies import Cursor, DatabaseSession, Id, Limit, Now
from service.api.findings import Actor
from service.api.router import Noun
from service.auth.permissions import Permission
from service.database.paging import matching
from service.history import attachments, exclusions, queries, replicates, types
from service.history.artifacts import ArtifactStore
from service.jobs import suggestions
from service.models import ResultRow
from service.schemas.jobs import Listing

router = Noun("/results", "results")

_WRITTEN = TypeAdapter(types.StoredResult)
_PACKED: Any = {
    200: {"content": {GZIP: {"schema": {"type": "string", "format": "binary"}}}},
    307: {"description": "It lies at the address in `Location`, in the bucket."},
    **router.problems(404),
}
Reason = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]+$")]


class ExclusionRequest(contracts.Contract):
    """The reason for excluding a result from analysis, and the actor who excludes it."""

    reason: Reason
    actor: Actor


@router.get("")
@Permission.READ.required
def list_results(
    session: DatabaseSession,
    revision: contracts.Revision | None = None,
    case: contracts.Line | None = None,
    worker: contracts.Name | None = None,
    status: contracts.Status | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Listing[types.ResultSummary]:
    """List results, the last to arrive first; `case` is a case's key."""
    of_case = {ResultRow.revision: revision, ResultRow.case_key: case}
    conditions = matching(of_case | {ResultRow.worker: worker, ResultRow.status: status})
    return Listing.of(queries.list_results(session, *conditions, after=cursor, limit=limit))


@router.get("/{result_id}", response_model=types.StoredResult, responses=router.problems(404))
@Permission.READ.required
def read_result(result_id: Id, session: DatabaseSession) -> Response:
    """Read a result: every sample and fact, as it was posted; `parts` are those of its point.

    `trace` is null where none was asked for; else it has `size_b` and `digest` of the profiler's
    trace, or `absent` says why there is none.

    `verdict.suggestions`, three at most, are made when they are read, from the results of the same
    workload, revision and hardware. A value that was measured to be faster comes first, with its
    `speedup`. One that was measured to gain 0.5 % or less is left out. One that nobody has measured
    rests on the evidence of this result, and its `speedup` is null. The rate that counts is
    `throughput` where the input is the limit, else `throughput_synth`.
    """
    loaded = queries.load_result(session, result_id)
    parts = tuple(replicates.part_of(session, result_id))
    stored = suggestions.advised(session, replace(loaded, parts=parts))
    # Written here, where few at once do: the values of a large result are gone when others begin.
    written = _WRITTEN.dump_json(attachments.with_artifacts(session, stored))
    return Response(written, media_type="application/json")


@router.get("/{result_id}/trace", response_class=Response, responses=_PACKED)
@Permission.READ.required
def read_trace(request: Request, result_id: Id, session: DatabaseSession) -> Response:
    """Download the profiler's Chrome trace of a result, JSON packed with gzip.

    404 where there is none. Of a case with several replicates the first one's result has it. With
    `THROUGHLINE_ARTIFACTS_DIRECT` 307 names its address in the bucket, which is good for minutes.
    """
    return _artifact(request, session, result_id, ArtifactKind.TRACE, "json")


@router.get("/{result_id}/log", response_class=Response, responses=_PACKED)
@Permission.READ.required
def read_log(request: Request, result_id: Id, session: DatabaseSession) -> Response:
    """Download the whole log of a failed result, packed with gzip; or 307, as for a trace.

    404 where `log_tail` has all of it.
    """
    return _artifact(request, session, result_id, ArtifactKind.LOG, "txt")


def _artifact(
    request: Request, session: Session, result_id: str, kind: ArtifactKind, ending: str
) -> Response:
    digest = attachments.digest_of(session, result_id, kind)
    store: ArtifactStore = request.app.state.artifacts
    if request.app.state.settings.artifacts_direct and (address := store.address(digest)):
        return RedirectResponse(address, 307)
    name = f'attachment; filename="{kind}-{result_id}.{ending}.gz"'
    body = attachments.load(store, digest, kind)
    return Response(body, media_type=GZIP, headers={"Content-Disposition": name})


@router.get("/{result_id}/exclusions", responses=router.problems(404))
@Permission.READ.required
def list_exclusions(result_id: Id, session: DatabaseSession) -> Listing[exclusions.ExclusionView]:
    """List who took a result out of its histories, when and why, and who put it back."""
    return Listing(items=exclusions.exclusions_of(session, result_id), next_cursor=None)


@router.put("/{result_id}/exclusion", responses=router.problems(404, 409))
@Permission.TRIAGE.required
def exclude(
    result_id: Id, request: ExclusionRequest, session: DatabaseSession, now: Now
) -> exclusions.ExclusionView:
    """Take a result out of its histories: it stays, is shown, and is analysed no more."""
    return exclusions.exclude(session, result_id, request.reason, request.actor, now)


@router.delete("/{result_id}/exclusion", responses=router.problems(404))
@Permission.TRIAGE.required
def include(
    result_id: Id, actor: Annotated[Actor, Query()], session: DatabaseSession, now: Now
) -> exclusions.ExclusionView:
    """Put an excluded result back into its histories."""
    return exclusions.include(session, result_id, actor, now)
