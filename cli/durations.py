"""Spans of time as people type them."""

from __future__ import annotations

import re

from cli.exits import Stop

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_DAY_S = 86_400.0
_SHOWN = 60
"""Characters of what was typed in a sentence."""
LONGEST_S = 3_660 * _DAY_S
"""Ten years: whoever types more has mistyped."""


def seconds(text: str) -> float:
    """Read ``15m``, ``900``, ``90s``, ``1.5h`` or ``30d`` as seconds.

    Raises:
        Stop: it is no span of time, or too long a one.
    """
    match = re.fullmatch(r"(\d+(?:\.\d{1,3})?)\s*(s|m|min|h|d)?", text.strip())
    if match is None or float(match[1]) == 0:
        raise Stop(f"{text[:_SHOWN]!r} is no span of time, such as 15m, 90s, 2h or 30d.")
    lasts = float(match[1]) * _UNITS[match[2] or ""]
    if lasts > LONGEST_S:
        raise Stop(f"{text[:_SHOWN]!r} is too long: a span of time is {days(LONGEST_S)} at most.")
    return lasts


def within(option: str, text: str, least_s: float, longest_s: float) -> float:
    """Read ``text`` as seconds within the limits of ``option``.

    Raises:
        Stop: they are not.
    """
    lasts = seconds(text)
    if not least_s <= lasts <= longest_s:
        raise Stop(f"{option} must be from {least_s:g}s to {days(longest_s)}, not {text}.")
    return lasts


def days(span_s: float) -> str:
    """A span as people type it, in days."""
    return f"{span_s / _DAY_S:g}d"
