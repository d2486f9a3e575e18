"""All evidence together: one cause, one sentence, and what stays open."""

from __future__ import annotations

from service.attribution.values import Attribution, Question


def attribute(question: Question) -> Attribution:
    """Say what a change is put down to."""
    raise NotImplementedError
