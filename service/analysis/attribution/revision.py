"""Tells whether the code can be the reason: not if one revision was measured at both levels."""

from __future__ import annotations

from service.analysis.attribution.types import Evidence, Part, Question, State, Strength
from service.analysis.statement import state


def evidence(question: Question) -> Evidence | None:
    """Say whether the sides share a revision; None if a side has no measurement."""
    old = {each.revision for each in question.before}
    new = {each.revision for each in question.after}
    if not old or not new:
        return None
    if shared := sorted(old & new):
        says = state("at_both_levels", revision=shared[0])
        return Evidence(Part.REVISION, shared[0], State.UNCHANGED, Strength.STRONG, says)
    name = f"{question.last_good}..{question.first_bad}"
    says = state("revision_changed")
    return Evidence(Part.REVISION, name, State.CHANGED, Strength.WEAK, says)
