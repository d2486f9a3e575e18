"""The headers that restrict a browser in every answer: pages, API, files and errors.

A page runs the scripts and takes the styles that this service serves as files, and nothing that
stands in the page itself: text of strangers that ever got out of its place would not run. htmx
needs no exception from that, and plotly.js the four style attributes of `_CHART_STYLES`.
"""

from __future__ import annotations

import base64
import hashlib

_CHART_STYLES = ("font-weight:bold", "font-style:italic", "cursor:pointer", "")
"""The style attributes that plotly.js writes for ``<b>``, ``<i>`` and ``<a>`` in a chart's text, to
the letter, and the empty one of a colour bar. All else it does through the DOM's own properties,
which no policy restricts."""


def _allowed(style: str) -> str:
    digest = hashlib.sha256(style.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


PAGE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' 'unsafe-hashes' {' '.join(map(_allowed, _CHART_STYLES))}",
        "img-src 'self' data: blob:",  # data: and blob: for plotly's picture of a chart
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""The Content-Security-Policy of a page."""

_NO_PAGE_POLICY = "default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
_UNUSED = (
    "accelerometer",
    "camera",
    "display-capture",
    "geolocation",
    "gyroscope",
    "microphone",
    "midi",
    "payment",
    "usb",
)
ALWAYS = {
    "Content-Security-Policy": _NO_PAGE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in _UNUSED),
    # Not no-referrer, under which a form of our own would be sent with "Origin: null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""What stands in every answer that does not say otherwise itself."""
RAW = [(name.lower().encode(), value.encode()) for name, value in ALWAYS.items()]
"""The same as ASGI has it."""
HTTPS_FOR_A_YEAR = (b"strict-transport-security", b"max-age=31536000")
"""Without includeSubDomains: other hosts are not ours to speak for."""
