"""What a person may do with a finding: each action with its states and its words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from service.findings.types import ACTIVE
from service.models import FindingState


class ActionName(StrEnum):
    """The actions by their names in the API, in the order in which they are offered."""

    ACKNOWLEDGE = "acknowledge"
    EXPECT = "expect"
    RESOLVE = "resolve"
    ENVIRONMENT = "environment"
    INFRASTRUCTURE = "infrastructure"
    NOT_REPRODUCED = "not_reproduced"
    WITHDRAW = "withdraw"
    REOPEN = "reopen"


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a person may do with a finding."""

    to: FindingState
    seen: frozenset[FindingState]
    """States in which it makes sense."""
    title: str
    meaning: str
    past: str
    """What its record says: "Ann acknowledged it"."""


ACTIONS: dict[str, Action] = {
    ActionName.ACKNOWLEDGE: Action(
        FindingState.ACKNOWLEDGED,
        frozenset({FindingState.OPEN}),
        "Acknowledge",
        "Somebody looks after it.",
        "acknowledged it",
    ),
    ActionName.EXPECT: Action(
        FindingState.EXPECTED,
        ACTIVE,
        "Expected: new baseline",
        "The change is wanted: the new level is the baseline.",
        "declared it expected: the new level is the baseline",
    ),
    ActionName.RESOLVE: Action(
        FindingState.RESOLVED, ACTIVE, "Resolved", "Its cause is gone.", "resolved it"
    ),
    ActionName.ENVIRONMENT: Action(
        FindingState.ENVIRONMENT,
        ACTIVE,
        "Environment",
        "The environment changed, not the code.",
        "put it down to the environment",
    ),
    ActionName.INFRASTRUCTURE: Action(
        FindingState.INFRASTRUCTURE,
        ACTIVE,
        "Infrastructure",
        "A node or its surroundings were at fault.",
        "put it down to the infrastructure",
    ),
    ActionName.NOT_REPRODUCED: Action(
        FindingState.NOT_REPRODUCED,
        ACTIVE,
        "Not reproduced",
        "It was measured again and is not there.",
        "declared it not reproduced",
    ),
    ActionName.WITHDRAW: Action(
        FindingState.WITHDRAWN, ACTIVE, "Withdraw", "It was never there.", "withdrew it"
    ),
    ActionName.REOPEN: Action(
        FindingState.OPEN,
        frozenset(FindingState) - ACTIVE,
        "Reopen",
        "It is back, or was closed by mistake.",
        "reopened it",
    ),
}
STEPS = {
    "open": "found it",
    "join": "added series",
    "move": "moved it",
    "plan": "planned",
    **{name: action.past for name, action in ACTIONS.items()},
}
"""Everything that the history of a finding may record, in the past tense."""
