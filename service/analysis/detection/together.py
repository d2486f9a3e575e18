"""Several histories of one suite, each judged with the others as witnesses.

A revision that changes one benchmark often changes others. So where others changed, a change of
this history is more likely, and less evidence of its own will do. By how much follows from how
often histories change at all and how many did so here: a beta-binomial prior, whose log odds
against the usual ones are added as evidence (``support.py``).

Where the same measure is taken in several places (machines, models, devices), the others also
contradict. A small step that no other place shows belongs to the place: a node, a driver, the
memory layout of a binary. It is left out here, and alone the history still shows it.

Only what a history shows alone makes it a witness, so that two weak ones never make each other
strong, and noise gives no support. The order of the histories changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from service.analysis.detection.change import ChangePoint
from service.analysis.detection.history import History
from service.analysis.detection.robust import Floats
from service.analysis.detection.segment_model import THRESHOLD
from service.analysis.detection.support import NONE, Support, Supports
from service.analysis.detection.windows import Detection, detect

APART = 3
"""Points by which two histories may place one change apart, where one lacks a revision or two."""
USUAL = 1.0 / 60.0
"""Share of points that lie within ``APART`` of a change, where nothing is known: some two changes
in 800 points."""
CLUSTERED = 0.05
"""Weight of that share, in histories. Changes come together or not at all: much less than one."""
LEAST, MOST = 0.5, 4.0
"""Nats of support below which it is none, and the most that there is."""
PER_DEVIATION = 2.0
"""Nats that count as one standard deviation of evidence. In normal noise it would be the threshold,
4.7; on synthetic histories ``confidence`` grows by 0.64."""
SMALL = math.log1p(0.025)
"""What is smaller must show elsewhere, if the same measure is taken there."""
SHOWN = 0.1
"""Share of the other places that must show it."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Member:
    """One history of a suite."""

    history: History
    positions: tuple[int, ...]
    """Of each value, on the axis that all histories of the suite share; never falling."""
    measure: str
    """What is measured."""
    place: str = ""
    """Where: a machine, a model, a device."""


def detect_together(members: Sequence[Member], threshold: float = THRESHOLD) -> list[Detection]:
    """Analyse all histories of a suite, in the order given."""
    alone = [detect(member.history, threshold) for member in members]
    axis = _Axis.of(members, alone)
    return [_judged(member, at, axis, alone[at], threshold) for at, member in enumerate(members)]


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """Which histories have points at each position, and which of them changed there."""

    first: int
    covered: Flags
    """Histories x positions."""
    changed: Flags
    others: Flags
    """Histories x histories: may be a witness of it."""
    same: Flags
    """Of these, the same measure in another place."""

    @classmethod
    def of(cls, members: Sequence[Member], alone: Sequence[Detection]) -> _Axis:
        first = min((member.positions[0] for member in members if member.positions), default=0)
        last = max((member.positions[-1] for member in members if member.positions), default=-1)
        shape = len(members), last + 1 - first
        covered, changed = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        for at, (member, detection) in enumerate(zip(members, alone, strict=True)):
            if member.positions:
                covered[at, member.positions[0] - first : member.positions[-1] + 1 - first] = True
            for change in detection.change_points:
                place = member.positions[change.index] - first
                changed[at, max(place - APART, 0) : place + APART + 1] = True
        measures = np.array([member.measure for member in members])
        places = np.array([member.place for member in members])
        same_measure = measures[:, None] == measures
        others = ~(same_measure & (places[:, None] == places))
        return cls(first, covered, changed & covered, others, others & same_measure)

    def counts(self, witnesses: Flags) -> tuple[Floats, Floats]:
        """How many witnesses changed at each position, and how many have points there."""
        changed: Floats = self.changed[witnesses].sum(axis=0, dtype=np.float64)
        covered: Floats = self.covered[witnesses].sum(axis=0, dtype=np.float64)
        return changed, covered


def support_of(changed: Floats, witnesses: Floats) -> Floats:
    """Standard deviations that so many changed ones of so many witnesses add; zero or more."""
    rest = CLUSTERED * (1.0 - USUAL) / USUAL
    nats = np.log((CLUSTERED + changed) / (rest + witnesses - changed)) - math.log(CLUSTERED / rest)
    known: Floats = np.where(nats < LEAST, 0.0, np.minimum(nats, MOST)) / PER_DEVIATION
    return known


def _judged(member: Member, at: int, axis: _Axis, alone: Detection, threshold: float) -> Detection:
    supports = _supports(member, support_of(*axis.counts(axis.others[at])), axis.first)
    found = detect(member.history, threshold, supports) if supports else alone
    moved, places = axis.counts(axis.same[at])
    contradicted = (places > 0) & (moved < SHOWN * places)
    kept = tuple(
        change
        for change in found.change_points
        if not (_small(change) and contradicted[member.positions[change.index] - axis.first])
    )
    return replace(found, change_points=kept)


def _supports(member: Member, known: Floats, first: int) -> Supports:
    weights = known[np.array(member.positions, dtype=np.int64) - first]
    if not weights.any():
        return NONE
    return {
        int(index): Support(float(weights[index]), float(weights[index]))
        for index in np.flatnonzero(weights)
    }


def _small(change: ChangePoint) -> bool:
    return abs(math.log1p(max(change.effect, -0.99))) < SMALL
