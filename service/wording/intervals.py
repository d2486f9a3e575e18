"""What the interval of the next night holds, and what nobody knows of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from service.analysis.variance import CAUSES, Component, Spread
from service.wording import formats


def place(spread: Spread) -> str:
    """Say on which node the next night is."""
    return "any node of this kind" if spread.node else "a node that has measured it before"


def next_night(spread: Spread) -> str:
    """Say for which night the interval is, and what it cannot hold."""
    if not (spread.night or spread.node):
        return "No level has two nights yet: what another night or node will show is unknown."
    said = [f"With a probability of 95 % the next night on {place(spread)} lies in this interval."]
    if not spread.node:
        said.append("How nodes differ is unknown: no two have measured one level.")
    elif not spread.night:
        said.append("Night and node cannot be told apart: no node has two nights of one level.")
    if not spread.process:
        said.append("Process and night cannot be told apart: each night had one process.")
    return " ".join(said)


def another_night(spread: Spread) -> str:
    """Say what the interval of the same measurement on another night holds."""
    if not (spread.night or spread.node):
        return "No level has two nights yet, so nobody knows how they differ."
    return f"95 % interval for the same measured on another night, on {place(spread)}"


def around(value: float, half: float, unit: str) -> str:
    """Write the interval around a value from its half-width on the logarithm."""
    return formats.interval(value, value * math.exp(-half), value * math.exp(half), unit)


def listed(parts: Mapping[str, Component]) -> str:
    """List what each cause adds: ``process 0.30 % (0.25 to 0.37 %), node unknown``."""
    named = " ".join(parts).split()
    known = [f"{cause} {_part(part)}" for cause, part in parts.items()]
    return ", ".join(known + [f"{cause} unknown" for cause in CAUSES if cause not in named])


def _part(part: Component) -> str:
    middle, low, high = (f"{100 * share:.2g}" for share in (part.deviation, part.low, part.high))
    return f"{middle}{formats.NBSP}% ({low} to {high}{formats.NBSP}%)"
