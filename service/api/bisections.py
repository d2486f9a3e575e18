"""The commit that changed something, searched among several."""

from __future__ import annotations

from benchmarks import contracts
from service.api import dependencies
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.comparisons import bisection
from service.database.paging import matching
from service.jobs.spent import spent_on
from service.models import BisectionRow
from service.schemas import bisections as schemas
from service.schemas.costs import Spent
from service.schemas.jobs import Listing

router = Noun("/bisections", "comparisons")


@router.post("", status_code=201, responses=router.problems(404))
@Permission.SUBMIT.required
def start(
    request: schemas.BisectionRequest,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    caller: dependencies.Caller,
) -> schemas.BisectionView:
    """Search the commit that changed a case, or that a finding is about, pair by pair.

    The commits are those between the ends along first parents, the good end first; of a finding
    the ends are its last good and first bad revision. Without `commits` a worker that builds both
    ends lists what lies between before the first pair: commits, or releases. Verifies that the ends
    differ today, probes the posterior median, and verifies the culprit beside its parent. While
    workers are there, ends that none of them can measure are refused with 422 (`unknown-name`).
    """
    bisection_id = bisection.start(session, dependencies.owned(request, caller), now)
    bisection.advance(session, bisection_id, now)
    audit.made(session, bisection_id)
    return bisection.load_bisection(session, bisection_id)


@router.get("")
@Permission.READ.required
def list_bisections(
    session: dependencies.DatabaseSession,
    state: schemas.BisectionState | None = None,
    finding: contracts.Id | None = None,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 50,
) -> Listing[schemas.BisectionSummary]:
    """List bisections, the newest first."""
    conditions = matching({BisectionRow.state: state, BisectionRow.finding_id: finding})
    page = bisection.list_bisections(session, *conditions, after=cursor, limit=limit)
    return Listing.of(page)


@router.get("/{bisection_id}", responses=router.problems(404))
@Permission.READ.required
def read_bisection(
    bisection_id: dependencies.Id, session: dependencies.DatabaseSession
) -> schemas.BisectionView:
    """Read a bisection: its outcome, or each commit's probability so far, and what is next."""
    return bisection.load_bisection(session, bisection_id)


@router.get("/{bisection_id}/cost", responses=router.problems(404))
@Permission.READ.required
def read_bisection_cost(
    bisection_id: dependencies.Id,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    prices: dependencies.Prices,
) -> Spent:
    """Read what the probes took of the devices so far, and the cost at the operator's prices."""
    return spent_on(session, BisectionRow, bisection_id, now, prices)


@router.post("/{bisection_id}/cancel", responses=router.problems(404))
@Permission.SUBMIT.required
def cancel(
    bisection_id: dependencies.Id, session: dependencies.DatabaseSession, now: dependencies.Now
) -> schemas.BisectionView:
    """Stop a bisection and its pair under way; one that has ended stays as it is."""
    bisection.cancel(session, bisection_id, now)
    return bisection.load_bisection(session, bisection_id)
