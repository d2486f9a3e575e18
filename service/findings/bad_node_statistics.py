"""Tells whether a node became slow in everything, and whether it is well again. Pure.

A node is held against the others in the same series, at the same revision or between the nearest
ones, so that a change of the code, which moves every node, is never put down to one. And it is held
against its own past: machines of one kind differ by up to a per cent for ever, which is no news.

Which others a node is held against is chance: whoever happened to measure that series. So what a
node lost must exceed whatever chance could make of lasting differences and of noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from service.analysis.statement import Statement
from service.schemas.findings import Certainty

LEAST_CONTRAST = 0.01
"""In logs. Nodes of one kind differ by less than this for ever, and beside another node each looks
otherwise; nobody is sent to look at one for it."""
NOISE_MULTIPLE = 3.0
"""A node must lose this many times as much as single results, its own and others', usually stray.
A bracket must be as many times as wide as usual before it is taken for a change within."""
PAST = 3
"""Revisions of its own that a node needs before anyone can say that it has changed."""
PERSISTENCE = 2
"""Revisions in a row: one bad night is not a bad node."""
LEAST_RESULTS, LEAST_SERIES = 4, 2
"""In fewer, chance leans one way too often among many nodes and nights. Results that are held
against the same results of others count once: if those were flukes, all of these are apart."""
EVERYTHING = 0.75
"""Share of the results that must lean the same way: a noisy one may stray."""
LEFT = 0.5
"""A node is well again when less than half of what it had lost is left."""


@dataclass(frozen=True, slots=True)
class NodeMeasurement:
    """One result, in the order of revisions."""

    series: str
    revision: str
    worker: str
    cost: float
    """Logarithm of what was measured, more being worse."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """The amount by which a node was worse than the others in one result, in logs."""

    series: str
    revision: str
    size: float
    """At least: what the others before or after explain is not counted."""
    apart: float
    """From the middle of the others, whatever explains it: how it varies is noise."""
    against: tuple[str, ...] | tuple[int, int]
    """Names the others' results: equal if they are the same ones."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that became slower than the others, and what is known of it."""

    worker: str
    last_good: str
    first_bad: str
    """The first revision that it measured slowly."""
    share: float
    """How much slower than before, against the others: 0.05 is five per cent."""
    says: Statement
    certainty: Certainty = Certainty.STANDING
    series: tuple[str, ...] = ()
    """In which it is slow; empty means in everything."""


def slowdown(all_contrasts: Mapping[str, Sequence[Contrast]], worker: str) -> NodeChange | None:
    """Say whether ``worker`` has become slow in everything; None if it has not, or nobody knows.

    ``all_contrasts`` is what `contrasts` says of all workers.
    """
    of_worker = all_contrasts.get(worker, ())
    names = list(dict.fromkeys(contrast.revision for contrast in of_worker))
    for begin in range(PAST, len(names) - PERSISTENCE + 1):
        past = [contrast for contrast in of_worker if contrast.revision in names[:begin]]
        newer = [contrast for contrast in of_worker if contrast.revision in names[begin:]]
        usual = median(contrast.size for contrast in past)
        limit = max(LEAST_CONTRAST, NOISE_MULTIPLE * _noise([past]))
        if usual < -limit:
            continue  # no node is by so much faster than its kind: the others were something else
        # The others' noise can only raise the limit: it is asked for once all else says yes, for
        # it takes a look at every result of every other worker.
        if _all_apart(newer, usual, limit):
            elsewhere = _noise(rows for name, rows in all_contrasts.items() if name != worker)
            limit = max(limit, NOISE_MULTIPLE * elsewhere)
            if not _all_apart(newer, usual, limit):
                continue
            share = math.expm1(median(contrast.size for contrast in newer) - usual)
            says = Statement.of(
                "bad_node",
                worker=worker,
                share=share,
                results=len(newer),
                revisions=len(names) - begin,
                first_bad=names[begin],
            )
            return NodeChange(worker, names[begin - 1], names[begin], share, says)
    return None


def well_again(
    of_worker: Sequence[Contrast], order: Sequence[str], last_good: str, share: float
) -> bool:
    """Return True if a slow node is, at its newest revisions, near what it was up to ``last_good``.

    ``of_worker`` is what `contrasts` says of it, and ``order`` names the revisions in their order.
    """
    if last_good not in order:
        return False  # so long ago that nobody remembers how it was before: a person says
    past = set(order[: order.index(last_good) + 1])
    names = list(dict.fromkeys(contrast.revision for contrast in of_worker))
    before, after = [n for n in names if n in past], [n for n in names if n not in past]
    if not before or len(after) < PERSISTENCE:
        return False
    usual = _middle(of_worker, before)
    newest = [_middle(of_worker, [name]) - usual for name in after[-PERSISTENCE:]]
    return max(newest) <= LEFT * math.log1p(share)


def contrasts(measured: Sequence[NodeMeasurement]) -> dict[str, list[Contrast]]:
    """Compare each worker with the others, in each of its results for which that is possible.

    At one revision, against the others there. Otherwise against the others before and after, of
    which the nearer value counts: what both sides do not explain is the node's. Others before and
    after that differ among themselves have a change between them, of the code or around it: nobody
    knows on which side of it the result lies, so it says nothing. Nor does one after which nobody
    else has measured its series yet.
    """
    by_series: dict[str, list[int]] = {}
    for place, measurement in enumerate(measured):
        by_series.setdefault(measurement.series, []).append(place)
    brackets: dict[int, _Bracket] = {}
    for places in by_series.values():
        brackets |= _of_series(measured, places)
    widest = _widest(brackets.values())
    by_worker: dict[str, list[Contrast]] = {}
    for place in sorted(brackets):
        measurement, bracket = measured[place], brackets[place]
        if bracket.width <= widest:
            by_worker.setdefault(measurement.worker, []).append(bracket.contrast(measurement))
    return by_worker


@dataclass(frozen=True, slots=True)
class _Bracket:
    """Others' costs on both sides of a result; at its own revision they are one."""

    before: float
    after: float
    against: tuple[str, ...] | tuple[int, int]
    across: bool
    """Whether it spans other revisions, between which something may have changed."""

    @property
    def width(self) -> float:
        return abs(self.after - self.before)

    def contrast(self, measurement: NodeMeasurement) -> Contrast:
        sizes = measurement.cost - self.before, measurement.cost - self.after
        size = min(sizes, key=abs) if sizes[0] * sizes[1] > 0 else 0.0
        return Contrast(
            measurement.series, measurement.revision, size, sum(sizes) / 2, self.against
        )


def _of_series(measured: Sequence[NodeMeasurement], places: Sequence[int]) -> dict[int, _Bracket]:
    at_revision: dict[str, list[NodeMeasurement]] = {}
    for place in places:
        at_revision.setdefault(measured[place].revision, []).append(measured[place])
    middles: dict[tuple[str, str], float | None] = {}  # a worker's results share their others
    brackets = {}
    for at, place in enumerate(places):
        measurement = measured[place]
        which = measurement.revision, measurement.worker
        if which not in middles:
            here = at_revision[measurement.revision]
            beside = [other.cost for other in here if _other(other, measurement)]
            middles[which] = median(beside) if beside else None
        middle = middles[which]
        if middle is not None:
            brackets[place] = _Bracket(middle, middle, (measurement.series, *which), across=False)
        elif (bracket := _between(measured, places, at)) is not None:
            brackets[place] = bracket
    return brackets


def _between(
    measured: Sequence[NodeMeasurement], places: Sequence[int], at: int
) -> _Bracket | None:
    """The nearest other worker's results before and after."""
    measurement = measured[places[at]]
    back, forth = reversed(places[:at]), places[at + 1 :]
    before = next((other for other in back if _other(measured[other], measurement)), None)
    after = next((other for other in forth if _other(measured[other], measurement)), None)
    if before is None or after is None:
        return None
    costs = measured[before].cost, measured[after].cost
    return _Bracket(*costs, against=(before, after), across=True)


def _widest(brackets: Iterable[_Bracket]) -> float:
    widths = [bracket.width for bracket in brackets if bracket.across]
    return max(LEAST_CONTRAST, NOISE_MULTIPLE * median(widths)) if widths else 0.0


def _other(one: NodeMeasurement, other: NodeMeasurement) -> bool:
    return one.worker != other.worker


def _noise(workers: Iterable[Sequence[Contrast]]) -> float:
    strays: list[float] = []
    for of_worker in workers:
        middle = median(contrast.apart for contrast in of_worker)
        strays += (abs(contrast.apart - middle) for contrast in of_worker)
    return median(strays) if strays else 0.0


def _middle(rows: Iterable[Contrast], revisions: Sequence[str]) -> float:
    return median(contrast.size for contrast in rows if contrast.revision in revisions)


def _all_apart(newer: Sequence[Contrast], usual: float, limit: float) -> bool:
    """Return True if a node is slow at every revision, in enough results of several series."""
    sizes = [contrast.size - usual for contrast in newer]
    lost = median(sizes)
    slow = max(limit, LEFT * lost)  # with less it would be well, and slow from a later one on
    revisions = {contrast.revision for contrast in newer}
    return (
        len({contrast.against for contrast in newer}) >= LEAST_RESULTS
        and len({contrast.series for contrast in newer}) >= LEAST_SERIES
        and sum(size > 0 for size in sizes) >= EVERYTHING * len(sizes)
        and lost >= limit
        and all(_middle(newer, [revision]) - usual >= slow for revision in revisions)
    )
