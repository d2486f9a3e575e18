"""How predictions are scored: one-to-one within five points, never by who is nearest to whom twice.

A prediction inside an ignored range counts neither way, unless it matches a label. On labelled
histories a prediction is dropped, for every detector alike, when the medians of the eight points on
either side differ by less than 0.8 %: too small for the labels to have an opinion.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trials.detection.synthetic import Planted

TOLERANCE = 5
SIDE, LEAST_CHANGE = 8, 0.008
MISSED = -1


@dataclass
class Tally:
    """Counts over many series."""

    hits: int = 0
    misses: int = 0
    wrong: int = 0
    false_on_stable: int = 0
    stable_points: int = 0
    by_size: dict[float, tuple[int, int]] = field(default_factory=dict)

    @property
    def precision(self) -> float:
        """Share of predictions that were right."""
        return self.hits / max(1, self.hits + self.wrong)

    @property
    def recall(self) -> float:
        """Share of changes that were found."""
        return self.hits / max(1, self.hits + self.misses)

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        return 2 * self.hits / max(1, 2 * self.hits + self.wrong + self.misses)

    @property
    def per_thousand(self) -> float:
        """False alarms per 1,000 points of series without a change."""
        return 1000.0 * self.false_on_stable / max(1, self.stable_points)

    def add(self, series: Planted, predicted: Sequence[int]) -> None:
        """Count one series."""
        hits, wrong = matched(series, predicted)
        self.hits += hits
        self.wrong += wrong
        self.misses += len(series.change_points) - hits
        if series.change_points:
            hits_so_far, planted = self.by_size.get(series.step, (0, 0))
            self.by_size[series.step] = (hits_so_far + hits, planted + len(series.change_points))
        else:
            self.false_on_stable += wrong
            self.stable_points += len(series.values)

    def merge(self, other: Tally) -> None:
        """Count what ``other`` counted."""
        self.hits += other.hits
        self.misses += other.misses
        self.wrong += other.wrong
        self.false_on_stable += other.false_on_stable
        self.stable_points += other.stable_points
        for step, (hits, planted) in other.by_size.items():
            mine = self.by_size.get(step, (0, 0))
            self.by_size[step] = (mine[0] + hits, mine[1] + planted)


def matched(series: Planted, predicted: Sequence[int]) -> tuple[int, int]:
    """How many predictions hit a change, and how many of the others count as wrong.

    On a line, pairing both sorted lists from the left finds the largest one-to-one matching.
    """
    waiting = sorted(predicted)
    unmatched: list[int] = []
    for truth in sorted(series.change_points):
        while waiting and waiting[0] < truth - TOLERANCE:
            unmatched.append(waiting.pop(0))
        if waiting and waiting[0] <= truth + TOLERANCE:
            waiting.pop(0)
        else:
            unmatched.append(MISSED)
    hits = len(series.change_points) - unmatched.count(MISSED)
    left = [place for place in unmatched if place != MISSED] + waiting
    return hits, sum(not any(a <= place <= b for a, b in series.ignore) for place in left)


def large_enough(series: Planted, predicted: Iterable[int]) -> list[int]:
    """The predictions that the labels of a real history can have an opinion on."""
    logs = np.log(np.asarray(series.values))
    kept = []
    for place in predicted:
        before, after = logs[max(0, place - SIDE) : place], logs[place : place + SIDE]
        if before.size and after.size:
            change = abs(float(np.median(after)) - float(np.median(before)))
            kept += [place] if change >= np.log1p(LEAST_CHANGE) else []
    return kept


@dataclass(frozen=True, slots=True)
class Row:
    """What one detector found in one series."""

    detector: str
    series: Planted
    predicted: tuple[int, ...]
    took_s: float
    alarms: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls,
        detector: str,
        series: Planted,
        places: Sequence[int],
        took_s: float,
        alarms: Sequence[tuple[int, int]] = (),
    ) -> Row:
        """A row with plain numbers."""
        return cls(detector, series, tuple(int(place) for place in places), took_s, tuple(alarms))

    def line(self) -> str:
        """The row as one line of JSON, without the series, which its seed makes again."""
        kept = {
            "detector": self.detector,
            "series": self.series.id,
            "change_points": self.series.change_points,
            "found": self.predicted,
            "took_ms": round(1000 * self.took_s, 2),
        }
        return json.dumps(kept | ({"alarms": self.alarms} if self.alarms else {})) + "\n"


def tally(rows: Iterable[Row]) -> Tally:
    """Count all rows."""
    total = Tally()
    for row in rows:
        total.add(row.series, row.predicted)
    return total
