"""Two revisions in the same series: how much better, how sure, and what may be called a change.

Pure, and plain on purpose: an interval for the ratio and a verdict that follows from it. Missing
data is never "same", and an interval that rests on a single process never makes a verdict: it
covers the next run in about one case out of four.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from benchmarks.contracts import Case, Direction, Status
from service.results.values import Failure, Series, SeriesPoint

SIDES = ("baseline", "contender")
LEAST_EFFECT = 0.005
"""A smaller difference is never called one. Three processes a side of equal code are told apart by
their intervals alone in one comparison out of 80, and where processes differ by 0.27 %, in one out
of 250 by this much."""
LEAST_EFFECT_ACROSS = 0.01
"""The same between two workers, whose devices differ as well."""


class Verdict(StrEnum):
    """What the intervals allow to be said."""

    FASTER = "faster"
    SLOWER = "slower"
    UNCLEAR = "unclear"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Contender over baseline, with its 95 % interval where both have one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one case on one kind of hardware from one revision to another."""

    case: Case
    metric: str
    unit: str
    direction: Direction
    comparability: dict[str, str]
    series_id: str | None
    baseline: SeriesPoint | None
    contender: SeriesPoint | None
    change: float | None
    """Ratio minus one, signed so that more than zero is better."""
    change_low: float | None
    change_high: float | None
    verdict: Verdict
    note: str
    """Why the verdict is not clearer; empty if it is clear."""
    project: str = ""
    """Whose history it is; empty: it belongs to none."""


def ratio(contender: SeriesPoint, baseline: SeriesPoint) -> Ratio | None:
    """The ratio of two means by the delta method on the logarithm; None if it has no meaning."""
    if contender.value <= 0 or baseline.value <= 0:
        return None
    value = contender.value / baseline.value
    spread = math.hypot(_relative(contender), _relative(baseline))
    if not math.isfinite(value) or not spread < 50:  # unknown, or too wide to say anything
        return Ratio(value, None, None) if math.isfinite(value) else None
    return Ratio(value, value * math.exp(-spread), value * math.exp(spread))


def compare(
    series: Series, baseline: str, contender: str, failures: Sequence[Failure] = ()
) -> Change:
    """Compare the soundest measurement of each revision in ``series``.

    ``failures`` may tell why there is none.
    """
    before, after = _soundest(series, baseline), _soundest(series, contender)
    found = ratio(after, before) if before and after else None
    change, low, high = _signed(found, series.direction)
    if before and after:
        verdict, note = _judge(before, after, (change, low, high))
    else:
        sides = zip(SIDES, (baseline, contender), (before, after), strict=True)
        without = {side: revision for side, revision, point in sides if point is None}
        why = {side: _why_none(series, name, failures) for side, name in without.items()}
        verdict, note = Verdict.MISSING, _no_result(why)
    return Change(
        case=series.case,
        metric=series.metric,
        unit=series.unit,
        direction=series.direction,
        comparability=series.comparability,
        series_id=series.id,
        baseline=before,
        contender=after,
        change=change,
        change_low=low,
        change_high=high,
        verdict=verdict,
        note=note,
        project=series.project,
    )


def compare_all(
    histories: Iterable[Series],
    baseline: str,
    contender: str,
    metric: str,
    wanted: Sequence[Case] | None = None,
    failures: Sequence[Failure] = (),
) -> list[Change]:
    """Compare every series, or those of the ``wanted`` cases, each of which gets a row at least.

    ``failures`` are of both revisions: a side without a result is told with its reason.
    """
    if wanted is None:
        return [compare(series, baseline, contender, failures) for series in histories]
    kept = [each for each in histories if any(same_case(each.case, case) for case in wanted)]
    changes = [compare(series, baseline, contender, failures) for series in kept]
    without = [case for case in wanted if not any(same_case(each.case, case) for each in kept)]
    revisions = dict(zip(SIDES, (baseline, contender), strict=True))
    return changes + [
        _absent(case, metric, {side: _failed(case, revisions[side], failures) for side in SIDES})
        for case in without
    ]


def same_case(measured: Case, asked: Case) -> bool:
    """Whether ``measured`` is what ``asked`` for; an asked preset ``auto`` may become either."""
    presets = ("auto", measured.preset)
    same = (measured.workload, measured.axes) == (asked.workload, asked.axes)
    return same and asked.preset in presets


def _soundest(series: Series, revision: str) -> SeriesPoint | None:
    """Of the most replicates, then the latest: a later quick look takes nothing from it."""

    def rank(point: SeriesPoint) -> tuple[int, datetime, str]:
        replicates = point.replicates if point.interval == "replicates" else 0
        return replicates, point.measured_at, point.result_id

    points = [p for p in series.points if p.revision == revision and p.counts]
    return max(points, key=rank, default=None)


def _relative(point: SeriesPoint) -> float:
    """Half-width over mean; infinite if the point has no interval."""
    if point.low is None or point.high is None:
        return math.inf
    return (point.high - point.low) / 2 / point.value


def _signed(
    found: Ratio | None, direction: Direction
) -> tuple[float | None, float | None, float | None]:
    if found is None:
        return None, None, None
    sign = 1 if direction is Direction.HIGHER else -1
    change = sign * (found.value - 1)
    if found.low is None or found.high is None:
        return change, None, None
    low, high = sorted((sign * (found.low - 1), sign * (found.high - 1)))
    return change, low, high


def _judge(
    before: SeriesPoint,
    after: SeriesPoint,
    signed: tuple[float | None, float | None, float | None],
) -> tuple[Verdict, str]:
    if doubt := _doubt(before, after):
        return Verdict.UNCLEAR, doubt
    change, low, high = signed
    if change is None or low is None or high is None:
        return Verdict.UNCLEAR, "The intervals are too wide to say anything; measure again."
    if low <= 0 <= high:
        return Verdict.UNCLEAR, "The interval of the change holds zero."
    if small := _small(change, across=before.worker != after.worker):
        return Verdict.UNCLEAR, small
    return (Verdict.FASTER if low > 0 else Verdict.SLOWER), ""


def _small(change: float, *, across: bool) -> str:
    """Why a difference that is sure is still no change; empty if it is one."""
    least = LEAST_EFFECT_ACROSS if across else LEAST_EFFECT
    if abs(change) >= least:
        return ""
    where = "on two workers " if across else ""
    return f"Equal code {where}differs by up to {least:.1%} as well; the gate can tell less apart."


def _doubt(before: SeriesPoint, after: SeriesPoint) -> str:
    """Why two points cannot be told apart, whatever their values; empty if they can."""
    if before.value <= 0 or after.value <= 0:
        return "A value is not above zero, so there is no ratio; look at both."
    if before.low is None or after.low is None:
        return "A value has no interval; measure with two replicates or more."
    if {before.interval, after.interval} != {"replicates"}:
        return "Measured in one process; measure with two replicates or more."
    return ""


def _why_none(series: Series, revision: str, failures: Sequence[Failure]) -> str:
    """Why a series has nothing to compare of a revision; empty if nobody knows."""
    left_out = [point for point in series.points if point.revision == revision]
    if left_out:
        newest = max(left_out, key=lambda point: (point.measured_at, point.result_id))
        return "excluded" if newest.excluded else f"on a disturbed device: {newest.disturbed}"
    facts = series.comparability.items()
    here = [
        failure
        for failure in failures
        if failure.project == series.project and failure.comparability.items() <= facts
    ]
    return _failed(series.case, revision, here)


def _failed(case: Case, revision: str, failures: Sequence[Failure]) -> str:
    """How measuring a case at a revision ended, the first time that ``failures`` tells."""
    for each in failures:
        same = same_case(case, each.case) or same_case(each.case, case)
        if same and each.revision == revision:
            parity = each.status == Status.PARITY_FAIL
            return "failed parity" if parity else each.status.replace("_", " ")
    return ""


def _no_result(lacking: Mapping[str, str]) -> str:
    """Such as ``No result of the baseline (excluded) and the contender in the history.``"""
    sides = (f"{side} ({why})" if why else side for side, why in lacking.items())
    return f"No result of the {' and the '.join(sides)} in the history."


def _absent(case: Case, metric: str, lacking: Mapping[str, str]) -> Change:
    return Change(
        case=case,
        metric=metric,
        unit="",
        direction=Direction.HIGHER,
        comparability={},
        series_id=None,
        baseline=None,
        contender=None,
        change=None,
        change_low=None,
        change_high=None,
        verdict=Verdict.MISSING,
        note=_no_result(lacking),
    )
