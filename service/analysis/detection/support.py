"""What is known of a place besides the values of its history, in the detector's own unit.

Two revisions that differed when they were measured beside each other are a fact, and other series
that changed at one place make a change there more likely in this one too. Both add to the evidence
of a step at that place, if it goes the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.analysis.detection.robust import Floats

BEYOND_DOUBT = 20.0
"""Standard deviations: more than weak evidence lacks and doubt asks for, together."""


@dataclass(frozen=True, slots=True)
class Support:
    """What is added to the evidence of a step at one place, in standard deviations."""

    rise: float = 0.0
    """If the size of the value grows."""
    fall: float = 0.0
    """If it shrinks."""
    is_return: bool = False
    """A fact may have been undone here: a step is proposed, and shown by its own evidence alone."""

    @property
    def binds(self) -> bool:
        """Return True if a step here is a fact."""
        return max(self.rise, self.fall) >= BEYOND_DOUBT

    def of(self, difference: float) -> float:
        """Return what it adds to a step of this difference."""
        return self.rise if difference > 0 else self.fall


Supports = Mapping[int, Support]
"""By the first point of the new level."""
NONE: Supports = {}


def confirmed(effect: float) -> Support:
    """Support of a change that was confirmed beside each other; ``effect`` has its direction."""
    return Support(rise=BEYOND_DOUBT) if effect > 0 else Support(fall=BEYOND_DOUBT)


def within(supports: Supports, start: int, end: int) -> Supports:
    """The supports inside a stretch, counted from its start."""
    return {place - start: known for place, known in supports.items() if start < place < end}


def facts(supports: Supports) -> list[int]:
    """The places at which a step is a fact, in their order."""
    return sorted(place for place, known in supports.items() if known.binds)


def known_borders(supports: Supports) -> list[int]:
    """The places of facts and of what may have undone them, in their order."""
    return sorted(place for place, known in supports.items() if known.binds or known.is_return)


RETURNED = 0.5
"""Share of a step that what lies between it and its like must undo to be its reversal."""
BEYOND = 1.5
"""Share of a step from which what comes after it is no return, but another change."""
LEAST_STAY = 3
"""Newest points at the old level from which a return is looked for: two may be flukes."""


def with_returns(y: Floats, supports: Supports) -> Supports:
    """Return the supports of ``y``, and where steps that are facts were undone.

    If the history takes the same step twice, it went back in between, however few points it stayed:
    that is a fact as well. The newest fact may have been undone since.
    """
    known = facts(supports)
    whole = dict(supports)
    for start, first, second in zip([0, *known], known, [*known[1:], len(y)], strict=False):
        is_newest = second == len(y)
        if not is_newest and supports[first] != supports[second]:
            continue  # the one undoes the other
        place, undone = _best_split(y, start, first, second)
        if not is_newest and undone >= RETURNED:
            whole[place] = confirmed(-1.0 if supports[first].rise else 1.0)
        elif is_newest and RETURNED <= undone <= BEYOND and second - place >= LEAST_STAY:
            whole.setdefault(place, Support(is_return=True))
    return whole


def _best_split(y: Floats, start: int, first: int, second: int) -> tuple[int, float]:
    """Split the level from ``first`` to ``second`` where its halves differ most.

    Gives the place, and the share of the step at ``first`` that is undone there: below zero if the
    level goes on as it began.
    """
    part = y[first:second]
    if len(part) < 2:
        return first, 0.0
    lengths = np.arange(1, len(part))
    sums = np.cumsum(part - part.mean())[:-1]
    at = int(np.argmax(sums**2 / (lengths * (len(part) - lengths))))
    back = float(np.median(part[at + 1 :]) - np.median(part[: at + 1]))
    step = float(np.median(part[: at + 1]) - np.median(y[start:first]))
    return first + at + 1, -back / step if step else 0.0


def with_borders(proposed: Sequence[int], supports: Supports, shortest: int) -> list[int]:
    """The borders that are known, and the proposals that are not close to one."""
    known = known_borders(supports)
    apart = [at for at in proposed if all(abs(at - border) >= shortest for border in known)]
    return sorted([*apart, *known])
