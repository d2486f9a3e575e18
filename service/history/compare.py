"""Two revisions in the same series: how much better, how sure, and what may be called a change.

Pure, and plain on purpose: an interval for the ratio and a verdict that follows from it. Missing
data is never "same". What one process says of itself makes no verdict: it covers the next run in
about one case out of four. How processes, nights and nodes differ is known from the series' own
history. Without it, fewer than three processes a side say nothing, and the note says what it would
take; three say how processes differ, and what the interval leaves out is said beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from benchmarks import contracts
from service.analysis.contrast import CALLED, LEAST_EFFECT, SHOWN
from service.analysis.variance import NIGHT, Spread
from service.history.types import Failure
from service.schemas.series import ChangeVerdict, Ratio, RevisionChange, Series, SeriesPoint

SIDES = ("baseline", "contender")
LEAST_EFFECT_ACROSS = 0.01
"""`LEAST_EFFECT` between two workers, whose devices differ as well."""
ENOUGH = 3
"""Processes of a side that say themselves how processes differ. Two have one degree of freedom."""
MEASURE = f"measure {ENOUGH} processes a side (--replicates {ENOUGH})"


@dataclass(frozen=True, slots=True)
class Known:
    """The facts that are known beside the points that are compared."""

    spreads: Mapping[str, Spread] = field(default_factory=dict)
    """How equal runs differ, by series."""
    code: Mapping[str, str] = field(default_factory=dict)
    """Which code ran, by environment; of one that does not tell, nothing."""

    def same_code(self, before: SeriesPoint, after: SeriesPoint) -> bool:
        """Return True if two revisions are two names for one code."""
        one, other = (self.code.get(point.environment, "") for point in (before, after))
        return before.revision != after.revision and one == other != ""


NOTHING = Known()


def ratio(contender: SeriesPoint, baseline: SeriesPoint) -> Ratio | None:
    """The ratio of two means by the delta method on the logarithm; None if it has no meaning."""
    return _of(contender, baseline, math.hypot(_relative(contender), _relative(baseline)))


def _of(contender: SeriesPoint, baseline: SeriesPoint, spread: float) -> Ratio | None:
    if contender.value <= 0 or baseline.value <= 0:
        return None
    value = contender.value / baseline.value
    if not math.isfinite(value) or not spread < 50:  # unknown, or too wide to say anything
        return Ratio(value, None, None) if math.isfinite(value) else None
    return Ratio(value, value * math.exp(-spread), value * math.exp(spread))


def _ratio(
    before: SeriesPoint, after: SeriesPoint, spread: Spread | None, confidence: float
) -> Ratio | None:
    """The ratio with what is known of the noise; without an interval where nothing is.

    From three processes a side on, the interval is at least as wide as they themselves say.
    """
    if before.value <= 0 or after.value <= 0:
        return None
    same_node, same_night = _together(before, after)
    known = None
    if spread is not None:
        both = before.replicates, after.replicates
        known = spread.apart(both, confidence, same_night=same_night, same_node=same_node)
    few = min(map(_processes, (before, after))) < ENOUGH
    replicated = {before.interval, after.interval} == {"replicates"}
    seen = math.hypot(_relative(before), _relative(after)) if replicated else math.inf
    if known is None:
        return _of(after, before, seen)
    return _of(after, before, known if few else max(known, seen))


def _together(before: SeriesPoint, after: SeriesPoint) -> tuple[bool, bool]:
    """Return whether two points share their node, and their night there."""
    same_node = before.worker == after.worker
    return same_node, same_node and abs(after.measured_at - before.measured_at) < NIGHT


def _left_out(before: SeriesPoint, after: SeriesPoint, spread: Spread | None) -> str:
    """Name what differs between two points and is not in their interval."""
    same_node, same_night = _together(before, after)
    lacking = (
        ("night", not same_night and not (spread and (spread.night or spread.node))),
        ("node", not same_node and not (spread and spread.node)),
    )
    return " and ".join(name for name, is_lacking in lacking if is_lacking)


def _processes(point: SeriesPoint) -> int:
    return point.replicates if point.interval == "replicates" else 1


def compare(
    series: Series,
    baseline: str,
    contender: str,
    failures: Sequence[Failure] = (),
    known: Known = NOTHING,
) -> RevisionChange:
    """Compare the soundest measurement of each revision in ``series``.

    ``failures`` may tell why there is none.
    """
    before, after = _soundest(series, baseline), _soundest(series, contender)
    change = low = high = None
    undecided, left_out = False, ""
    if before and after:
        spread = known.spreads.get(series.id)
        change, low, high = _signed(_ratio(before, after, spread, SHOWN), series.direction)
        left_out = "" if low is None else _left_out(before, after, spread)
        if known.same_code(before, after):
            verdict, note, undecided = ChangeVerdict.UNCLEAR, SAME_CODE, True
        else:
            verdict, note, undecided = _decide(before, after, series.direction, spread)
    else:
        sides = zip(SIDES, (baseline, contender), (before, after), strict=True)
        without = {side: revision for side, revision, point in sides if point is None}
        why = {side: _why_none(series, name, failures) for side, name in without.items()}
        verdict, note = ChangeVerdict.MISSING, _no_result(why)
    return RevisionChange(
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
        undecided=undecided,
        left_out=left_out,
    )


def compare_all(
    histories: Iterable[Series],
    baseline: str,
    contender: str,
    metric: str,
    cases: Sequence[contracts.Case] | None = None,
    failures: Sequence[Failure] = (),
    known: Known = NOTHING,
) -> list[RevisionChange]:
    """Compare every series, or those of the ``cases`` asked for, each of which gets a row at least.

    ``failures`` are of both revisions: a side without a result gets its reason.
    """
    if cases is None:
        return [compare(series, baseline, contender, failures, known) for series in histories]
    kept = [series for series in histories if any(same_case(series.case, case) for case in cases)]
    changes = [compare(series, baseline, contender, failures, known) for series in kept]
    without = [case for case in cases if not any(same_case(series.case, case) for series in kept)]
    revisions = dict(zip(SIDES, (baseline, contender), strict=True))
    return changes + [
        _absent(case, metric, {side: _failed(case, revisions[side], failures) for side in SIDES})
        for case in without
    ]


def same_case(measured: contracts.Case, asked: contracts.Case) -> bool:
    """Return True if ``measured`` is the case ``asked`` for; the preset ``auto`` matches any."""
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
    if point.low is None or point.high is None:
        return math.inf
    return (point.high - point.low) / 2 / point.value


def _signed(
    ratio: Ratio | None, direction: contracts.Direction
) -> tuple[float | None, float | None, float | None]:
    if ratio is None:
        return None, None, None
    sign = 1 if direction is contracts.Direction.HIGHER else -1
    change = sign * (ratio.value - 1)
    if ratio.low is None or ratio.high is None:
        return change, None, None
    low, high = sorted((sign * (ratio.low - 1), sign * (ratio.high - 1)))
    return change, low, high


SAME_CODE = (
    "Both revisions ran the same code and software, so nothing was compared; what differs is not "
    "between them."
)
NOT_ABOVE_ZERO = "A value is not above zero, so there is no ratio; look at both."
BY_HISTORY = "With fewer than 3 processes a side, it rests on how equal runs of its history differ."


def _decide(
    before: SeriesPoint, after: SeriesPoint, direction: contracts.Direction, spread: Spread | None
) -> tuple[ChangeVerdict, str, bool]:
    """The verdict, why it is not clearer or what it rests on, and whether it is undecided."""
    if before.value <= 0 or after.value <= 0:
        return ChangeVerdict.UNCLEAR, NOT_ABOVE_ZERO, True
    few = min(map(_processes, (before, after))) < ENOUGH
    by_history = few and spread is not None
    change, low, high = _signed(_ratio(before, after, spread, SHOWN), direction)
    if change is None or low is None or high is None:
        return ChangeVerdict.UNCLEAR, _unknown(before, after), True
    least = LEAST_EFFECT_ACROSS if before.worker != after.worker else LEAST_EFFECT
    if low <= 0 <= high:
        lost = few and not by_history and change <= -least
        more = f"; {MEASURE}" if lost else ""
        return ChangeVerdict.UNCLEAR, f"The interval of the change holds zero{more}.", lost
    if small := _small(change, across=before.worker != after.worker):
        return ChangeVerdict.UNCLEAR, small, False
    _, called_low, called_high = _signed(_ratio(before, after, spread, CALLED), direction)
    if by_history and (called_low or 0.0) <= 0 <= (called_high or 0.0):
        return (
            ChangeVerdict.UNCLEAR,
            f"{BY_HISTORY} It is likely, and not sure: {MEASURE}.",
            high < 0,
        )
    verdict = ChangeVerdict.FASTER if low > 0 else ChangeVerdict.SLOWER
    return verdict, BY_HISTORY if by_history else "", False


def _unknown(before: SeriesPoint, after: SeriesPoint) -> str:
    """Say why a difference is unclear, and what would settle it."""
    if min(map(_processes, (before, after))) < ENOUGH:
        return (
            "Measured in one process, and its history is too short to say how much equal runs "
            f"differ: {MEASURE}."
        )
    return "The intervals are too wide to say anything; measure again."


def _small(change: float, *, across: bool) -> str:
    least = LEAST_EFFECT_ACROSS if across else LEAST_EFFECT
    if abs(change) >= least:
        return ""
    where = "on two workers " if across else ""
    return f"Equal code {where}differs by up to {least:.1%} as well; the gate can tell less apart."


def _why_none(series: Series, revision: str, failures: Sequence[Failure]) -> str:
    """Say why a series has nothing to compare at a revision; empty if nobody knows."""
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


def _failed(case: contracts.Case, revision: str, failures: Sequence[Failure]) -> str:
    """Name the first of ``failures`` of a case at a revision; empty if there is none."""
    for failure in failures:
        same = same_case(case, failure.case) or same_case(failure.case, case)
        if same and failure.revision == revision:
            parity = failure.status == contracts.Status.PARITY_FAIL
            return "failed parity" if parity else failure.status.replace("_", " ")
    return ""


def _no_result(lacking: Mapping[str, str]) -> str:
    sides = (f"{side} ({why})" if why else side for side, why in lacking.items())
    return f"No result of the {' and the '.join(sides)} in the history."


def _absent(case: contracts.Case, metric: str, lacking: Mapping[str, str]) -> RevisionChange:
    return RevisionChange(
        case=case,
        metric=metric,
        unit="",
        direction=contracts.Direction.HIGHER,
        comparability={},
        series_id=None,
        baseline=None,
        contender=None,
        change=None,
        change_low=None,
        change_high=None,
        verdict=ChangeVerdict.MISSING,
        note=_no_result(lacking),
    )
