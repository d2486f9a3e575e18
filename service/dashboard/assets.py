"""Static files under URLs that carry a hash of their content, so that browsers keep them for good.

Nothing comes from another host. ``plotly.min.js`` is plotly.js's own bundle for lines and bars, as
its npm package plotly.js-basic-dist-min has it.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse

from service.auth.permissions import Permission
from service.http.exchange import Shared

_OURS = files("service.dashboard") / "static"
_STYLES_ID = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
_ASSETS: dict[str, tuple[Traversable, str]] = {
    "app.css": (_OURS / "app.css", "text/css; charset=utf-8"),
    "app.js": (_OURS / "app.js", "text/javascript; charset=utf-8"),
    "explore.js": (_OURS / "explore.js", "text/javascript; charset=utf-8"),
    "palette.js": (_OURS / "palette.js", "text/javascript; charset=utf-8"),
    "triage.js": (_OURS / "triage.js", "text/javascript; charset=utf-8"),
    "htmx.min.js": (_OURS / "htmx.min.js", "text/javascript; charset=utf-8"),
    "icon.svg": (_OURS / "icon.svg", "image/svg+xml"),
    "plotly.min.js": (_OURS / "plotly-basic.min.js", "text/javascript; charset=utf-8"),
}


@cache
def _content(name: str) -> bytes:
    content = _ASSETS[name][0].read_bytes()
    return _compiled_early(content) if name == "plotly.min.js" else content


def _compiled_early(script: bytes) -> bytes:
    """Put plotly.js's one function, all of it, in parentheses.

    Browsers compile such a function while it arrives. Another they compile when it is called, in
    the thread that the page needs to answer.
    """
    begin, end = b"this, () => {", b"}));"
    if script.count(begin) != 1 or not script.endswith(end):
        return script
    return script.replace(begin, b"this, (() => {").removesuffix(end) + b"})));"


@cache
def _gzipped(name: str) -> bytes:
    return gzip.compress(_content(name), 6, mtime=0)


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(_content(name)).hexdigest()[:16]


def url(name: str) -> str:
    """Give an asset's URL; it changes with the content. KeyError if there is no such asset."""
    return f"/assets/{_digest(name)}/{name}"


@cache
def plotly_styles() -> str:
    """Give the id under which plotly.js looks for the styles of its maps before it makes them.

    Something in the page that has this id keeps it from writing them into the page, which the
    page's policy forbids and no chart here needs. Empty: it looks for none.
    """
    match = _STYLES_ID.search(_content("plotly.min.js"))
    return match[1].decode() if match else ""


@Permission.OPEN.required
def _serve(request: Request, digest: str, name: str) -> Response:
    if name not in _ASSETS:
        return PlainTextResponse("There is no such file.", status_code=404)
    if digest != _digest(name):  # a page from before an upgrade
        return RedirectResponse(url(name), headers={"Cache-Control": "no-store"})
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    zipped = "gzip" in request.headers.get("accept-encoding", "")
    if zipped:
        headers["Content-Encoding"] = "gzip"
    body = _gzipped(name) if zipped else _content(name)
    return Shared(body, media_type=_ASSETS[name][1], headers=headers)


def mount(app: FastAPI) -> None:
    """Serve the dashboard's static files from ``app``."""
    app.add_api_route("/assets/{digest}/{name}", _serve, methods=["GET"], include_in_schema=False)
