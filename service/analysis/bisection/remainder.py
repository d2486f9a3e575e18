"""Searches for whoever made the part of a change that known culprits leave.

The step of a culprit goes from its parent to it. Without it both count as one place, and only the
probes that do not hold one side of it beside the other tell of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from scipy.special import stdtrit

from service.analysis.bisection.posterior import Probe, Search
from service.analysis.gate.noise import FAR, FLOOR, PairNoise

Step = tuple[int, int]
"""The places before and after a culprit: it and its parent, or the ends of a range."""
SURE_OF_MORE = 0.99
"""Confidence at which a part of the change is taken for one: a search in vain costs."""
LEAST_REST = 0.15
"""Share of the whole change below which nobody is looked for, or blamed."""


def rest_of(search: Search, steps: Sequence[Step]) -> float | None:
    """Return the difference of the ends that known culprits leave; None if that may be none."""
    whole = search.beside(search.commits, 0)
    parts = [search.beside(after, before) for before, after in steps]
    left = median(whole) - math.fsum(median(part) for part in parts)
    return left if left > least_part(search, whole, *parts) else None


def least_part(search: Search, *compared: Sequence[float]) -> float:
    """Return the difference beyond which a part of the change is sure to be more than noise.

    It is told by the medians of the pairs that are ``compared``.
    """
    noise = pair_noise(search)
    error = noise.deviation * math.sqrt(math.fsum(1 / len(pairs) for pairs in compared))
    share = LEAST_REST * median(search.beside(search.commits, 0))
    return max(error * float(stdtrit(noise.freedom, SURE_OF_MORE)), share)


def pair_noise(search: Search) -> PairNoise:
    """The noise of a pair: what was known of it, and what pairs of the same commits say.

    By what is known, an odd process counts as a far one and no more.
    """
    known = None if search.noise is None else search.noise.prior
    most = math.inf if known is None else FAR * max(known.deviation, FLOOR)
    asked = {(probe.commit, probe.beside) for probe in search.measured}
    groups = [search.beside(*places) for places in sorted(asked)]
    off = [min(abs(one - median(of)), most) for of in groups for one in of]
    freedom = float(sum(len(of) - 1 for of in groups))
    square = math.fsum(one**2 for one in off)
    if known is not None:
        square += known.freedom * known.deviation**2
        freedom += known.freedom
    return PairNoise(max(math.sqrt(square / max(freedom, 1.0)), FLOOR), max(freedom, 1.0))


def without(search: Search, steps: Sequence[Step], expected: float) -> Search:
    """The search for whoever else changed it by ``expected``, with both sides of a step as one."""
    usable = set(search.usable)
    broken = [place for place in range(search.commits + 1) if place not in usable]
    told = [
        replace(probe, commit=place_in(probe.commit, steps), beside=place_in(probe.beside, steps))
        for probe in search.measured
        if not _spans(probe, steps)
    ]
    lost = [
        Probe(place, 0, unusable=place)
        for place in (place_in(place, steps) for place in broken if not _inside(place, steps))
    ]
    return Search(
        commits=place_in(search.commits, steps),
        probes=(*told, *lost),
        expected=expected,
        noise=search.noise or pair_noise(search),
    )


def place_in(place: int, steps: Sequence[Step]) -> int:
    """The place of a commit in the search without the steps."""
    return place - sum(min(max(place - before, 0), after - before) for before, after in steps)


def places_of(place: int, steps: Sequence[Step]) -> tuple[int, int]:
    """The first and the last commit that are one place in the search without the steps."""
    first = last = place
    for before, after in sorted(steps):
        if before < first:
            first += after - before
        if before <= last:
            last += after - before
    return first, last


def start_of(commit: int, steps: Sequence[Step]) -> int:
    """The earliest commit that a later one can be held beside without a step between."""
    return max((after for _, after in steps if after <= commit), default=0)


def _spans(probe: Probe, steps: Sequence[Step]) -> bool:
    return any(probe.beside < after and before < probe.commit for before, after in steps)


def _inside(place: int, steps: Sequence[Step]) -> bool:
    return any(before < place < after for before, after in steps)
