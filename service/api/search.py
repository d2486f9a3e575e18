"""The route of the search."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from service.api.dependencies import DatabaseSession
from service.api.router import Noun
from service.auth.permissions import Permission
from service.findings import search as by_words
from service.http.strict_route import Plain
from service.schemas.jobs import Listing
from service.schemas.search import SearchHit

router = Noun("/search", "search")

Text = Annotated[str, Query(max_length=200, description="Words that a name has.")]


@router.get("")
@Permission.READ.required
def search(
    session: DatabaseSession, q: Text = "", limit: Annotated[int, Query(ge=1, le=50), Plain] = 12
) -> Listing[SearchHit]:
    """Find findings, revisions and series by words in their names, and a run by its id.

    Without words the newest findings and revisions. Of findings the newest 200 are looked through.
    """
    return Listing(items=by_words.search(session, q, limit), next_cursor=None)
