"""Did what was timed train anything? The flags of a measurement in, a sentence out. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from benchmarks.contracts import Result, Status
from benchmarks.diagnosis.parity import MOST_SKIPS

NOT_FINITE = "loss_not_finite"
"""What a timed pass is flagged with (after its name) when its last loss was NaN or infinite."""
DISCARDED = "updates_discarded"
"""The same when its gradient scaler had lost its way, so that hardly a step trained."""
LOST_SHARE = 0.1
"""Share of a pass's steps whose update the scaler discards, from which it has lost its way ..."""
LEAST_SCALE = 2.0**-24
"""... as it has at a scale that turns a gradient of one into zero in fp16."""
_BROKEN = {
    NOT_FINITE: "The loss was NaN or infinite at the end",
    DISCARDED: "Gradients were not finite and updates discarded in too many steps",
}


def not_finite(flags: Iterable[str]) -> str:
    """Return the reason, from its flags, why a measurement has no speed; empty if it has one."""
    parts = [flag.partition(".") for flag in flags]
    for name, words in _BROKEN.items():
        if where := [phase.upper() for phase, _, flag in parts if flag == name]:
            return (
                f"{words} of {' and '.join(where)}: how fast a model makes that says nothing. "
                "Choose a precision with more range, or a smaller learning rate."
            )
    return ""


def lost(before: float, after: float, steps: int) -> bool:
    """Return True if a gradient scaler discarded so many updates that a pass hardly trained.

    Args:
        before: its scale when the pass began; each update that it discards halves it.
        after: its scale at the end.
        steps: of the pass.
    """
    return after < LEAST_SCALE or math.log2(before / after) > max(MOST_SKIPS, LOST_SHARE * steps)


def without_speed(result: Result, reason: str) -> Result:
    """``result`` of a model that made NaN: its raw passes are kept, and no number is told."""
    update = {"status": Status.PARITY_FAIL, "reason": reason, "samples": (), "verdict": None}
    return result.model_copy(update=update)
