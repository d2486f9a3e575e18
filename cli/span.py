"""Spans of time as people type them."""

from __future__ import annotations

import re

from cli.exits import Stop

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """Read ``15m``, ``900``, ``90s``, ``1.5h`` or ``30d`` as seconds.

    Raises:
        Stop: it is no span of time.
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)\s*(s|m|min|h|d)?", text.strip())
    if found is None or float(found[1]) == 0:
        raise Stop(f"{text!r} is no span of time, such as 15m, 90s, 2h or 30d.")
    return float(found[1]) * _UNITS[found[2] or ""]
