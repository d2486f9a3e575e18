"""The route of best cases: the fastest of each workload."""

from __future__ import annotations

from benchmarks.contracts import Workload
from service.api.dependencies import DatabaseSession, Now
from service.api.router import Noun
from service.auth.permissions import Permission
from service.history import best
from service.schemas.best import BestCase
from service.schemas.jobs import Listing

router = Noun("/best", "best")


@router.get("")
@Permission.READ.required
def list_best(
    session: DatabaseSession, now: Now, workload: Workload | None = None
) -> Listing[BestCase]:
    """List the fastest case of each workload and preset on each kind of hardware.

    Cases rank by the throughput of their newest point of the last 30 days, unless they failed
    parity since. `as_good` names those that the noise of their histories cannot tell from the best.
    `overtaken` names the best case of 14 days ago, or of 30 revisions ago if that is newer, once
    another one is surely faster. Of more than 1,000 histories those with the newest revisions are
    ranked.
    """
    return Listing(items=best.best_cases(session, now, workload), next_cursor=None)
