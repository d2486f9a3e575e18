"""The route that takes what other tools measured."""

from __future__ import annotations

from service.api.dependencies import Caller, DatabaseSession, Now, owned
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.history import imports
from service.schemas.imports import Imported, ImportRequest

router = Noun("/imports", "imports")


@router.post("", responses=router.problems(409))
@Permission.SUBMIT.required
def import_points(
    request: ImportRequest, session: DatabaseSession, now: Now, caller: Caller
) -> Imported:
    """Import points that another tool measured: all of the request, or nothing.

    Each benchmark, with its parameters, metric and hardware, is a series of its `source`, judged
    like those that are measured here and never mixed with them. The same points may be sent again:
    those that are known by their content change nothing. Every point names a `revision`;
    `committed_at` is its commit's time and orders the history, else `at` does. A series keeps its
    unit and direction: other ones are refused with 409.
    """
    if request.check_only:
        return imports.check(session, owned(request, caller), now)
    imported = imports.store(session, owned(request, caller), now)
    audit.made(session, f"{request.source}: {imported.new} points")
    return imported
