"""Whether a node became slow in everything, and whether it is well again. Pure.

A node is held against the others in the same series, at the same revision or between the nearest
ones, so that a change of the code, which moves every node, is never put down to one. And it is held
against its own past: machines of one kind differ by a per cent or so for ever, which is no news.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

LEAST_CONTRAST = 0.005
"""In logs: below half a per cent nobody goes and looks at a machine."""
NOISE_MULTIPLE = 3.0
"""A node must stand this many times further apart than the others usually do."""
PAST = 3
"""Revisions of its own that a node needs before anyone can say that it has changed."""
PERSISTENCE = 2
"""Revisions in a row: one bad night is not a bad node."""
LEAST_RESULTS, LEAST_SERIES = 4, 2
"""In fewer, chance leans one way too often among many nodes and nights."""
EVERYTHING = 0.75
"""Share of the results that must lean the same way: a noisy one may stray."""
LEFT = 0.5
"""A node is well again when less than half of what it had lost is left."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One result, in the order of revisions."""

    series: str
    revision: str
    worker: str
    cost: float
    """Logarithm of what was measured, more being worse."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """How much worse a node was than the others in one result, in logs."""

    series: str
    revision: str
    size: float


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A node that has become slower than the others."""

    worker: str
    first_bad: str
    """The first revision that it measured slowly."""
    last_good: str
    share: float
    """How much slower than before, against the others: 0.05 is five per cent."""
    results: int
    """That say so, over all its series, at so many ``revisions``."""
    revisions: int


def slowdown(told: Mapping[str, Sequence[Contrast]], worker: str) -> Slowdown | None:
    """Say whether ``worker`` has become slow in everything; None if it has not, or nobody knows.

    ``told`` is what `contrasts` says of all workers.
    """
    own = told.get(worker, ())
    names = list(dict.fromkeys(each.revision for each in own))
    limit = max(LEAST_CONTRAST, NOISE_MULTIPLE * _noise(told, worker))
    for begin in range(PAST, len(names) - PERSISTENCE + 1):
        usual = _middle(own, names[:begin])
        newer = [each for each in own if each.revision in names[begin:]]
        if _all_apart(newer, usual, limit):
            return Slowdown(
                worker=worker,
                first_bad=names[begin],
                last_good=names[begin - 1],
                share=math.expm1(median(each.size for each in newer) - usual),
                results=len(newer),
                revisions=len(names) - begin,
            )
    return None


def well_again(
    told: Sequence[Contrast], order: Sequence[str], last_good: str, share: float
) -> bool:
    """Whether a slow node is near what it was up to ``last_good``, at its newest revisions.

    ``told`` is what `contrasts` says of it, and ``order`` names the revisions in their order.
    """
    if last_good not in order:
        return False  # so long ago that nobody remembers how it was before: a person says
    past = set(order[: order.index(last_good) + 1])
    names = list(dict.fromkeys(each.revision for each in told))
    before, after = [n for n in names if n in past], [n for n in names if n not in past]
    if not before or len(after) < PERSISTENCE:
        return False
    usual = _middle(told, before)
    newest = [_middle(told, [name]) - usual for name in after[-PERSISTENCE:]]
    return max(newest) <= LEFT * math.log1p(share)


def contrasts(measured: Sequence[Measured]) -> dict[str, list[Contrast]]:
    """How each worker compares in each of its results that can be held against others' results.

    At one revision, against the others there. Otherwise against the others before and after, of
    which the nearer value counts: what both sides do not explain is the node's. A result after
    which nobody else has measured its series says nothing yet.
    """
    by_series: dict[str, list[int]] = {}
    for place, each in enumerate(measured):
        by_series.setdefault(each.series, []).append(place)
    sizes: dict[int, float] = {}
    for places in by_series.values():
        sizes |= _of_series(measured, places)
    found: dict[str, list[Contrast]] = {}
    for place in sorted(sizes):
        each = measured[place]
        contrast = Contrast(each.series, each.revision, sizes[place])
        found.setdefault(each.worker, []).append(contrast)
    return found


def _of_series(measured: Sequence[Measured], places: Sequence[int]) -> dict[int, float]:
    history = [measured[place] for place in places]
    at_revision: dict[str, list[Measured]] = {}
    for each in history:
        at_revision.setdefault(each.revision, []).append(each)
    found = {}
    for at, own in enumerate(history):
        beside = [each.cost for each in at_revision[own.revision] if _other(each, own)]
        size = own.cost - median(beside) if beside else _between(history, at)
        if size is not None:
            found[places[at]] = size
    return found


def _between(history: Sequence[Measured], at: int) -> float | None:
    """Against the nearest other worker's results before and after."""
    own = history[at]
    back, forth = range(at - 1, -1, -1), range(at + 1, len(history))
    before = next((history[place] for place in back if _other(history[place], own)), None)
    after = next((history[place] for place in forth if _other(history[place], own)), None)
    if before is None or after is None:
        return None
    sizes = own.cost - before.cost, own.cost - after.cost
    if sizes[0] * sizes[1] <= 0:
        return 0.0
    return min(sizes, key=abs)


def _other(one: Measured, own: Measured) -> bool:
    return one.worker != own.worker


def _noise(told: Mapping[str, Sequence[Contrast]], worker: str) -> float:
    """How far the others usually stand apart in a single result."""
    sizes = [abs(each.size) for other, theirs in told.items() if other != worker for each in theirs]
    return median(sizes) if sizes else 0.0


def _middle(told: Iterable[Contrast], revisions: Sequence[str]) -> float:
    return median(each.size for each in told if each.revision in revisions)


def _all_apart(newer: Sequence[Contrast], usual: float, limit: float) -> bool:
    """Whether a node leans the same way at every revision, in enough results of several series."""
    sizes = [each.size - usual for each in newer]
    revisions = {each.revision for each in newer}
    return (
        len(sizes) >= LEAST_RESULTS
        and len({each.series for each in newer}) >= LEAST_SERIES
        and sum(size > 0 for size in sizes) >= EVERYTHING * len(sizes)
        and median(sizes) >= limit
        and all(_middle(newer, [revision]) - usual >= limit for revision in revisions)
    )
