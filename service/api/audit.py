"""The route that lists the audit log."""

from __future__ import annotations

from service.api.dependencies import Cursor, DatabaseSession, Limit
from service.api.router import Noun
from service.auth import audit
from service.auth.audit import AuditView
from service.auth.permissions import Permission
from service.schemas.jobs import Listing

router = Noun("/audit", "access")


@router.get("")
@Permission.ADMIN.required
def list_audit(
    session: DatabaseSession, cursor: Cursor = None, limit: Limit = 100
) -> Listing[AuditView]:
    """List what was changed, by whom and when, the newest first; the log only grows."""
    return Listing.of(audit.listed(session, after=cursor, limit=limit))
