"""Findings in plain words: kinds, causes, states, actions and what was done."""

from __future__ import annotations

from service.dashboard.labels import plain
from service.findings.lifecycle import ACTIONS, STEPS, Action
from service.history.description import NoiseView
from service.models import ConfirmationState, FindingState
from service.schemas import findings as schemas
from service.wording import formats

KINDS = {
    schemas.FindingKind.REGRESSION: ("▼", "regression", "worse"),
    schemas.FindingKind.IMPROVEMENT: ("▲", "improvement", "better"),
    schemas.FindingKind.BAD_NODE: ("◆", "bad node", "mark"),
    schemas.FindingKind.OVERTAKEN: ("⇅", "new best case", "mark"),
    schemas.FindingKind.FAILURE: ("✗", "failure", "worse"),
}
"""A sign, a name and a tone: never the tone alone."""
CAUSES = {cause.value: cause for cause in schemas.Cause}
CERTAINTIES = {
    schemas.Certainty.CONFIRMED: ("confirmed by reruns", "It was measured again, and is there."),
    schemas.Certainty.STANDING: (
        "not confirmed yet",
        "The history alone: the new level has stood for several points.",
    ),
}
PARTS = {
    schemas.Part.ENVIRONMENT: "environment",
    schemas.Part.INPUT: "input",
    schemas.Part.CLOCKS: "clocks",
    schemas.Part.COMPILE: "compiler",
    schemas.Part.PARITY: "parity",
    schemas.Part.PHASES: "phases and readings",
    schemas.Part.REVISION: "revision",
    schemas.Part.NODE: "node",
    schemas.Part.FACTORS: "which cases",
}
EVIDENCE = {
    schemas.State.CHANGED: "Changed",
    schemas.State.UNCHANGED: "Unchanged",
    schemas.State.UNCLEAR: "Not clear",
}
OUTCOMES = {
    ConfirmationState.RUNNING: "being measured again",
    ConfirmationState.CONFIRMED: "confirmed",
    ConfirmationState.NOT_REPRODUCED: "not reproduced",
    ConfirmationState.BAD_NODE: "bad node",
    ConfirmationState.ENVIRONMENT: "environment",
    ConfirmationState.UNRESOLVED: "not decided",
}
ENDED = {"": "it stands", "recovered": "back at its level", "gone": "no change any more"}

WORTH_TELLING = 0.001
"""A worker's own offset from a tenth of a per cent on."""


def offers(state: FindingState) -> dict[str, Action]:
    """List the actions that are possible in a state, by name."""
    return {name: action for name, action in ACTIONS.items() if state in action.seen}


def done(action: str) -> str:
    """Say in the past tense what was done with a finding."""
    return STEPS.get(action) or plain(action)


def reach(effect: float, low: float, high: float) -> str:
    """Write the interval of an effect in the effect's own direction: ``2.8 % to 3.4 %``."""
    sign = 1.0 if effect >= 0 else -1.0
    ends = sorted((sign * low, sign * high))
    return " to ".join(formats.change(end).removeprefix("+") for end in ends)


def reach_of(series: schemas.AffectedSeries) -> str:
    """Write the interval of how far a series moved."""
    return reach(series.effect, series.effect_low, series.effect_high)


def taken_out(noise: NoiseView) -> str:
    """Describe the differences that analysis explains by other things than a change.

    Example: ``worker d -3.1 %, a slope of ...``.
    """
    said = [
        f"worker {name} {formats.change(offset)}"
        for name, offset in sorted(noise.machine_offsets.items())
        if abs(offset) >= WORTH_TELLING
    ]
    if noise.drift_per_point:
        said.append(f"a slope of {formats.change(noise.drift_per_point)} a point")
    if noise.mode_distance:
        said.append(f"a second mode {formats.size(noise.mode_distance)} away")
    return ", ".join(said)
