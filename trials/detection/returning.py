"""A regression that comes back after its revert: how often each detector finds the second drop.

    PYTHONPATH=.:tests python -m trials.detection.returning

14 points at 300, 8 at 285, some at 300, 15 at 285, noise of 0.3 %, 20 seeds. A row for each length
of the return, and the points after which our replay announces the second drop (median).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from trials.detection.ours import announced, ours
from trials.detection.rivals import RIVALS
from trials.detection.synthetic import Planted
from trials.detection.table import OURS

BEFORE, DROPPED, AFTER = 14, 8, 15
RETURNS = (4, 5, 6, 7, 8, 10, 12, 16, 20)
RATE, STEP, NOISE = 300.0, 0.05, 0.003
SEEDS = range(20)
NEAR = 1
"""Points by which the second drop may be placed apart."""


def main() -> None:
    """Print the table."""
    detectors = {OURS: ours, **RIVALS}
    print("| points back | " + " | ".join(detectors) + " | announced after |")
    print("| --- " * (len(detectors) + 2) + "|")
    for back in RETURNS:
        histories = [history(seed, back) for seed in SEEDS]
        found = [sum(second(run(one), one) for one in histories) for run in detectors.values()]
        shown = [f"{count}/{len(histories)}" for count in found]
        print(f"| {back} | {' | '.join(shown)} | {delay(histories)} |", flush=True)


def history(seed: int, back: int) -> Planted:
    """One history whose drop was reverted for ``back`` points."""
    lengths = [BEFORE, DROPPED, back, AFTER]
    level = np.repeat([1.0, 1.0 - STEP, 1.0, 1.0 - STEP], lengths)
    rng = np.random.default_rng((seed, back))
    values = RATE * level * np.exp(rng.normal(0.0, NOISE, len(level)))
    places = tuple(np.cumsum(lengths)[:-1].tolist())
    return Planted(
        f"{back} {seed}", "returning", tuple(values.tolist()), places, direction="higher"
    )


def second(found: Sequence[int], series: Planted) -> bool:
    """Return True if the second drop is among the places found."""
    return any(abs(place - series.change_points[-1]) <= NEAR for place in found)


def delay(histories: Sequence[Planted]) -> str:
    """Points of the second drop that had been seen when it was announced."""
    delays = []
    for series in histories:
        drop = series.change_points[-1]
        alarms = [at for at, index in announced(series) if abs(index - drop) <= NEAR]
        delays += [min(alarms) - drop + 1] if alarms else []
    return f"{median(delays):.0f}" if delays else ""


if __name__ == "__main__":
    main()
