"""Hardware and software that results were measured on."""

from __future__ import annotations

from pydantic import BaseModel

from service.api.dependencies import DatabaseSession, Digest
from service.api.router import Noun
from service.auth.permissions import Permission
from service.history import queries

router = Noun("/environments", "environments")


class EnvironmentView(BaseModel):
    """A fingerprint: flat facts under `hw.`, `sw.` and `flag.`."""

    digest: str
    facts: dict[str, str]


@router.get("/{digest}", responses=router.problems(404))
@Permission.READ.required
def read_environment(digest: Digest, session: DatabaseSession) -> EnvironmentView:
    """Read the facts of an environment."""
    return EnvironmentView(digest=digest, facts=queries.load_environment(session, digest))
