"""Tells whether the code can be the reason: not if one revision was measured at both levels."""

from __future__ import annotations

from service import formats
from service.analysis.attribution.types import Evidence, Part, Question, State, Strength


def evidence(question: Question) -> Evidence | None:
    """Say whether the sides share a revision; None if a side has no measurement."""
    old = {each.revision for each in question.before}
    new = {each.revision for each in question.after}
    if not old or not new:
        return None
    if shared := sorted(old & new):
        says = f"{formats.revision(shared[0])} was measured at both levels"
        return Evidence(Part.REVISION, shared[0], State.UNCHANGED, Strength.STRONG, says)
    name = f"{question.last_good}..{question.first_bad}"
    return Evidence(Part.REVISION, name, State.CHANGED, Strength.WEAK, "the revision changed")
