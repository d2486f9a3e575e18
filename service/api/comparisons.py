"""Two revisions measured against each other."""

from __future__ import annotations

from fastapi import Response

from benchmarks.contracts import Revision
from service import comparisons
from service.api import dependencies
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.database.paging import matching
from service.jobs.spent import spent_on
from service.models import ComparisonRow
from service.schemas import comparisons as schemas
from service.schemas.costs import Spent
from service.schemas.jobs import Listing

router = Noun("/comparisons", "comparisons")


@router.post("", status_code=201, responses={200: {"description": "Started before."}})
@Permission.SUBMIT.required
def start(
    request: schemas.ComparisonRequest,
    response: Response,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    caller: dependencies.Caller,
    idempotency_key: dependencies.IdempotencyKey = None,
) -> schemas.ComparisonView:
    """Measure two revisions in turn on one device until every case is decided or the budget ends.

    With an `Idempotency-Key` the same request may be sent again and again: it is started once, and
    answered with 200 and the same comparison. The key with another request is refused. A
    comparison that is cancelled gives its key up. While workers are there, revisions that
    none of them can measure are refused with 422 (`unknown-name`).
    """
    accepted = comparisons.start(session, dependencies.owned(request, caller), now, idempotency_key)
    if accepted.replayed:
        response.status_code = 200
    else:
        comparisons.advance(session, accepted.comparison_id, now)
    audit.made(session, accepted.comparison_id, before=accepted.replayed)
    return comparisons.load_comparison(session, accepted.comparison_id, now)


@router.get("")
@Permission.READ.required
def list_comparisons(
    session: dependencies.DatabaseSession,
    state: schemas.ComparisonState | None = None,
    contender: Revision | None = None,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 50,
) -> Listing[schemas.ComparisonSummary]:
    """List comparisons, the newest first."""
    conditions = matching({ComparisonRow.state: state, ComparisonRow.contender: contender})
    page = comparisons.list_comparisons(session, *conditions, after=cursor, limit=limit)
    return Listing.of(page)


@router.get("/{comparison_id}", responses=router.problems(404))
@Permission.READ.required
def read_comparison(
    comparison_id: dependencies.Id, session: dependencies.DatabaseSession, now: dependencies.Now
) -> schemas.ComparisonView:
    """Read a comparison: its decision, or what its pairs say so far."""
    return comparisons.load_comparison(session, comparison_id, now)


@router.get("/{comparison_id}/cost", responses=router.problems(404))
@Permission.READ.required
def read_comparison_cost(
    comparison_id: dependencies.Id,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    prices: dependencies.Prices,
) -> Spent:
    """Read what a comparison took of the devices so far, and its cost at the operator's prices."""
    return spent_on(session, ComparisonRow, comparison_id, now, prices)


@router.post("/{comparison_id}/cancel", responses=router.problems(404))
@Permission.SUBMIT.required
def cancel(
    comparison_id: dependencies.Id, session: dependencies.DatabaseSession, now: dependencies.Now
) -> schemas.ComparisonView:
    """Stop a comparison and its jobs; one that has ended stays as it is."""
    comparisons.cancel(session, comparison_id, now)
    return comparisons.load_comparison(session, comparison_id, now)
