"""Detects timed passes that trained nothing, from their flags. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from benchmarks.contracts import Result, Status
from benchmarks.diagnosis.parity import MOST_SKIPS

NOT_FINITE = "loss_not_finite"
"""Flag of a timed pass (after its name) whose last loss was NaN or infinite."""
DISCARDED = "updates_discarded"
"""Flag of a pass whose gradient scaler had lost its way, so that hardly a step trained."""
LOST_SHARE = 0.1
"""Share of a pass's steps with discarded updates, above which the scaler has lost its way ..."""
LEAST_SCALE = 2.0**-24
"""... also at a scale that turns a gradient of one into zero in fp16."""
_BROKEN = {
    NOT_FINITE: "The loss was NaN or infinite at the end",
    DISCARDED: "Gradients were not finite and updates discarded in too many steps",
}


def not_finite(flags: Iterable[str]) -> str:
    """Return the reason why a measurement with these flags has no speed; empty if it has one."""
    parts = [flag.partition(".") for flag in flags]
    for name, words in _BROKEN.items():
        if where := [phase.upper() for phase, _, flag in parts if flag == name]:
            return (
                f"{words} of {' and '.join(where)}: how fast a model makes that says nothing. "
                "Choose a precision with more range, or a smaller learning rate."
            )
    return ""


def lost(before: float, after: float, steps: int) -> bool:
    """True if a gradient scaler, halved by each discarded update, discarded too many of them."""
    return after < LEAST_SCALE or math.log2(before / after) > max(MOST_SKIPS, LOST_SHARE * steps)


def without_speed(result: Result, reason: str) -> Result:
    """``result`` of a model that made NaN: the raw passes stay, the samples go."""
    update = {"status": Status.PARITY_FAIL, "reason": reason, "samples": (), "verdict": None}
    return result.model_copy(update=update)
