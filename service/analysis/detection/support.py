"""What is known of a place besides the values of its history, in the detector's own unit.

Two revisions that differed when they were measured beside each other are a fact, and other series
that changed at one place make a change there more likely in this one too. Both add to the evidence
of a step at that place, if it goes the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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


RETURNED = 0.5
"""Share of a step that what lies between it and its like must undo to be its reversal."""


def with_returns(y: Floats, supports: Supports) -> Supports:
    """The supports of ``y``, and a fact wherever a step must have been undone.

    If the history takes the same step twice, it went back in between, however few points it stayed.
    """
    known = facts(supports)
    whole = dict(supports)
    for first, second in _twice(supports):
        start = max([place for place in known if place < first], default=0)
        place = _return_between(y, start, first, second)
        if place is not None:
            whole[place] = confirmed(-1.0 if supports[first].rise else 1.0)
    return whole


def _twice(supports: Supports) -> list[tuple[int, int]]:
    """Neighbouring facts of the same direction."""
    pairs = pairwise(facts(supports))
    return [(one, other) for one, other in pairs if supports[one] == supports[other]]


def _return_between(y: Floats, start: int, first: int, second: int) -> int | None:
    """The place where the step at ``first`` was undone before ``second``; None if it was not."""
    part = y[first:second]
    if len(part) < 2:
        return None
    lengths = np.arange(1, len(part))
    sums = np.cumsum(part - part.mean())[:-1]
    at = int(np.argmax(sums**2 / (lengths * (len(part) - lengths))))
    back = float(np.median(part[at + 1 :]) - np.median(part[: at + 1]))
    before = float(np.median(part[: at + 1]) - np.median(y[start:first]))
    return first + at + 1 if -back * np.sign(before) >= RETURNED * abs(before) else None


def with_facts(proposed: Sequence[int], supports: Supports, shortest: int) -> list[int]:
    """The places of facts, and the proposals that are not close to one."""
    known = facts(supports)
    apart = [at for at in proposed if all(abs(at - fact) >= shortest for fact in known)]
    return sorted([*apart, *known])
