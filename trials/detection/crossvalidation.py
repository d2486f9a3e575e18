"""How the constants would have done on histories that they were not chosen on.

    PYTHONPATH=.:tests python -m trials.detection.crossvalidation FILE

FILE holds labelled histories (``labelled.py``). They are split by family into five parts; steps are
planted into the residuals of each part separately (``injected.py``); the synthetic suite gives each
part a seed of its own. For each part, the constants are chosen from a coarse grid on the other four
by their mean F1 over all suites, and scored on the part. The score of the shipped constants and of
the others' rules, on the same parts, stands beside it. Raw counts go into ``--rows``: no value of
the histories, no name.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from service.analysis.detection import evidence, robust, segment_model
from trials.detection import injected, labelled, synthetic
from trials.detection.ours import ours
from trials.detection.rivals import RIVALS
from trials.detection.score import Tally, large_enough
from trials.detection.synthetic import Planted

FIRST_SEED = 100
INJECTED = 60
SYNTH = "synth"
Finder = Callable[[Planted], list[int]]
Setting = Mapping[str, float]
Parts = dict[tuple[str, int], list[Planted]]
Counts = dict[tuple[str, int], Tally]

PLACES = {
    "BEYOND": evidence,
    "PER_HALVING": segment_model,
    "OUTLIER": robust,
    "PRICE": segment_model,
    "PER_DOUBLING": evidence,
    "PER_LENGTH": evidence,
    "WANDERING": evidence,
    "DEPENDENCE": evidence,
}
GRID: dict[str, tuple[float, ...]] = {
    "BEYOND": (0.0, 0.15, 0.6, 1.0),
    "PER_HALVING": (0.0, 1.0, 3.0),
    "OUTLIER": (5.0, 12.0),
    "PRICE": (4.0, 10.0),
    "PER_DOUBLING": (0.4, 1.2),
    "PER_LENGTH": (0.6, 1.8),
    "WANDERING": (0.0, 0.25),
    "DEPENDENCE": (0.25, 0.75),
}
"""One constant at a time moves from where it is; two of them at once where they might trade."""
PAIRS: tuple[Setting, ...] = (
    {"BEYOND": 1.0, "PER_HALVING": 0.0},
    {"BEYOND": 0.1, "PER_HALVING": 3.0},
    {"BEYOND": 0.0, "PER_HALVING": 1.0},
)


def main() -> None:
    """Score everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=Path, help="where the counts go, JSON lines")
    parser.add_argument("--ours", action="store_true", help="without the others' rules")
    arguments = parser.parse_args()
    parts = divided(labelled.read(arguments.file))
    settings: list[Setting] = [{}, *_singles(), *PAIRS]
    tried = [_logged(setting, _counted(parts, setting)) for setting in settings]
    by_detector = {"chosen by cross-validation": _chosen(tried, settings), "as shipped": tried[0]}
    rivals = {} if arguments.ours else RIVALS
    by_detector |= {name: _logged(name, counted(parts, run)) for name, run in rivals.items()}
    print(_table(by_detector))
    if arguments.rows:
        lines = [
            json.dumps({"detector": name, "suite": suite, "part": part, **_numbers(tally)}) + "\n"
            for name, counts in by_detector.items()
            for (suite, part), tally in counts.items()
        ]
        arguments.rows.write_text("".join(lines), encoding="utf-8")


def divided(histories: Sequence[Planted]) -> Parts:
    """Every suite in five parts; what is planted in a part comes from its histories alone."""
    parts: Parts = defaultdict(list)
    for series in histories:
        parts[series.suite, labelled.fold(series)].append(series)
    for part in range(labelled.FOLDS):
        pool = [series for series in histories if labelled.fold(series) == part]
        parts["inject", part] = injected.suite(pool, FIRST_SEED + part, INJECTED) if pool else []
        parts[SYNTH, part] = list(synthetic.suite(FIRST_SEED + part, replicates=1))
    return dict(parts)


def counted(parts: Parts, run: Finder) -> Counts:
    """Hits, misses and false alarms of one detector in each part."""
    counts = {}
    for (suite, part), histories in parts.items():
        counts[suite, part] = Tally()
        for series in histories:
            places = run(series)
            kept = places if suite == SYNTH else large_enough(series, places)
            counts[suite, part].add(series, kept)
    return counts


def pooled(counts: Counts) -> dict[str, Tally]:
    """The parts of each suite together."""
    suites: dict[str, Tally] = {}
    for (suite, _), tally in counts.items():
        suites.setdefault(suite, Tally()).merge(tally)
    return suites


def mean_f1(counts: Counts) -> float:
    """Mean over suites of the F1 over all their series."""
    suites = pooled(counts).values()
    return sum(tally.f1 for tally in suites) / len(suites)


def _chosen(tried: Sequence[Counts], settings: Sequence[Setting]) -> Counts:
    """Each part scored with what is best on the others."""
    counts = {}
    for part in range(labelled.FOLDS):
        others = [
            {key: t for key, t in counts_of_setting.items() if key[1] != part}
            for counts_of_setting in tried
        ]
        best = max(range(len(tried)), key=lambda at: mean_f1(others[at]))
        print(f"part {part}: chosen {dict(settings[best]) or 'as shipped'}", file=sys.stderr)
        counts |= {key: tally for key, tally in tried[best].items() if key[1] == part}
    return counts


def _singles() -> Iterator[Setting]:
    for name, values in GRID.items():
        yield from ({name: value} for value in values)


def _counted(parts: Parts, setting: Setting) -> Counts:
    with changed(setting):
        return counted(parts, ours)


@contextmanager
def changed(setting: Setting) -> Iterator[None]:
    """The constants of ``setting`` in force, inside."""
    before = {name: getattr(PLACES[name], name) for name in setting}
    try:
        for name, value in setting.items():
            setattr(PLACES[name], name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(PLACES[name], name, value)


def _logged(name: object, counts: Counts) -> Counts:
    suites = {suite: round(tally.f1, 3) for suite, tally in pooled(counts).items()}
    print(name, round(mean_f1(counts), 4), suites, file=sys.stderr, flush=True)
    return counts


def _numbers(tally: Tally) -> dict[str, int]:
    return {
        "hits": tally.hits,
        "misses": tally.misses,
        "wrong": tally.wrong,
        "false_on_stable": tally.false_on_stable,
        "stable_points": tally.stable_points,
    }


def _table(by_detector: Mapping[str, Counts]) -> str:
    suites = list(pooled(next(iter(by_detector.values()))))
    lines = [["detector", *suites, "mean"], ["---"] * (len(suites) + 2)]
    for name, counts in by_detector.items():
        shown = [f"{t.f1:.2f} ({t.per_thousand:.1f})" for t in pooled(counts).values()]
        lines.append([name, *shown, f"{mean_f1(counts):.3f}"])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


if __name__ == "__main__":
    main()
