"""How many findings ask for attention: said beside their name on every page."""

from __future__ import annotations

from fastapi import Depends, Request

from service import findings
from service.dashboard.pages import Reading
from service.dashboard.rendering import partial


def count(request: Request, session: Reading) -> None:
    """Note the number for `rendering.render`; a part of a page does not show it."""
    if not partial(request):
        request.state.attention = findings.count_active(session)


COUNTED = Depends(count, scope="function")
"""For the routers of pages."""
