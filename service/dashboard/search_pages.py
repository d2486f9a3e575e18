"""The page of the search, for whoever has no JavaScript; with it, every page has it in a window."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import HTMLResponse

from service.api.dependencies import Reading
from service.api.search import Text
from service.auth.permissions import Permission
from service.dashboard import rendering
from service.findings import search

router = rendering.page_router(rendering.COUNTED)

SHOWN = 50


@router.get("/search")
@Permission.READ.required
def show_search(request: Request, session: Reading, q: Text = "") -> HTMLResponse:
    """Show what has the words of ``q`` in its name."""
    hits = search.search(session, q, SHOWN)
    return rendering.render(request, "search.html", text=q, hits=hits, most=SHOWN)
