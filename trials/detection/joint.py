"""Labelled histories judged together: each with the others of its suite as witnesses.

    PYTHONPATH=.:tests python -m trials.detection.joint FILE [--apart]

FILE holds labelled histories (``labelled.py``). They name no revisions, so they are aligned at
their ends. Witnesses are all histories of one project; with ``--apart``, those of one suite alone.
Only values of witnesses are used, never labels. The two constants that matter are chosen from a
grid on four of five parts and scored on the fifth, as in ``crossvalidation.py``.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

from service.analysis.detection import together
from service.analysis.detection.together import Member, detect_together
from trials.detection import labelled
from trials.detection.crossvalidation import Counts, mean_f1, pooled
from trials.detection.ours import history, ours
from trials.detection.score import Tally, large_enough
from trials.detection.synthetic import Planted

GRID = tuple(product((1.0, 2.0, 4.0), (0.015, 0.02, 0.025, 0.03)))
"""Nats per standard deviation, and the size that is small."""
DEVICES = ("BMG", "PVC")


def main() -> None:
    """Print F1 of each suite: alone, chosen by cross-validation, as shipped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--apart", action="store_true", help="witnesses of one suite alone")
    arguments = parser.parse_args()
    histories = labelled.read(arguments.file)
    group = suite_of if arguments.apart else project_of
    alone = counted(histories, {series: ours(series) for series in histories})
    show("alone", alone)
    show("together, as shipped", counted(histories, judged(histories, group)))
    tried = [tried_with(histories, group, *setting) for setting in GRID]
    show("together, chosen by cross-validation", chosen(tried))


def project_of(series: Planted) -> str:
    """The project whose benchmarks ran at the same revisions."""
    place = series.id.partition("@")[2]
    if place.endswith(".jl"):
        return place
    return "ur" if place.startswith(DEVICES) else "mjwarp"


def suite_of(series: Planted) -> str:
    """The suite of labels."""
    return f"{series.suite} {project_of(series)}"


def judged(
    histories: Sequence[Planted], group: Callable[[Planted], str]
) -> dict[Planted, list[int]]:
    """Change points of all histories, each group judged together."""
    groups: dict[str, list[Planted]] = defaultdict(list)
    for series in histories:
        groups[group(series)].append(series)
    found = {}
    for some in groups.values():
        detections = detect_together([member(series) for series in some])
        for series, detection in zip(some, detections, strict=True):
            found[series] = [change.index for change in detection.change_points]
    return found


def member(series: Planted) -> Member:
    """One history, aligned at its end."""
    measure, _, place = series.id.partition("@")
    count = len(series.values)
    return Member(history(series), tuple(range(-count, 0)), measure, place)


def counted(histories: Sequence[Planted], found: Mapping[Planted, list[int]]) -> Counts:
    """Hits, misses and false alarms of each suite and part."""
    counts: Counts = defaultdict(Tally)
    for series in histories:
        tally = counts[series.suite, labelled.fold(series)]
        tally.add(series, large_enough(series, found[series]))
    return dict(counts)


def tried_with(
    histories: Sequence[Planted], group: Callable[[Planted], str], nats: float, small: float
) -> Counts:
    """The counts with other constants."""
    before = together.PER_DEVIATION, together.SMALL
    together.PER_DEVIATION, together.SMALL = nats, math.log1p(small)
    try:
        counts = counted(histories, judged(histories, group))
    finally:
        together.PER_DEVIATION, together.SMALL = before
    show(f"{nats} nats, small {small}", counts)
    return counts


def chosen(tried: Sequence[Counts]) -> Counts:
    """Each part scored with what is best on the others."""
    counts: Counts = {}
    for part in range(labelled.FOLDS):
        others = [{key: t for key, t in one.items() if key[1] != part} for one in tried]
        best = max(range(len(tried)), key=lambda at: mean_f1(others[at]))
        print(f"part {part}: chosen {GRID[best]}")
        counts |= {key: tally for key, tally in tried[best].items() if key[1] == part}
    return counts


def show(name: str, counts: Counts) -> None:
    """Print one row."""
    suites = pooled(counts).items()
    shown = [f"{suite} {tally.f1:.3f} ({tally.per_thousand:.1f})" for suite, tally in suites]
    print(f"{name}: {', '.join(shown)}; mean {mean_f1(counts):.3f}", flush=True)


if __name__ == "__main__":
    main()
