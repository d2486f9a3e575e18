"""Suspicious results, and what measuring them again said."""

from __future__ import annotations

from service.api.dependencies import Cursor, DatabaseSession, Limit
from service.api.router import Noun
from service.auth.permissions import Permission
from service.database.paging import matching
from service.findings import confirm
from service.findings.confirm import ConfirmationView
from service.models import ConfirmationRow, ConfirmationState
from service.schemas.jobs import Listing

router = Noun("/confirmations", "findings")


@router.get("")
@Permission.READ.required
def list_confirmations(
    session: DatabaseSession,
    state: ConfirmationState | None = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[ConfirmationView]:
    """List results that were suspicious and are or were measured again, the newest first."""
    conditions = matching({ConfirmationRow.state: state})
    return Listing.of(confirm.list_confirmations(session, *conditions, after=cursor, limit=limit))
