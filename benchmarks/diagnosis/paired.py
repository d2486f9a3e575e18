"""Metrics of a side of a duet, and one Result out of both sides. Pure, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchmarks.catalog.metrics import sample
from benchmarks.contracts import Result, Sample, Status, Turn

TRIMMED = 0.2
"""Share of the turns that is set aside at either end of their differences. Of forty recorded turns
on an H200 one was off by 19 %, which would have moved the mean of twelve by 1.6 %."""
ONE_AFTER_THE_OTHER = "one_after_the_other"
"""Flag of a pair whose sides could not be measured in turn."""
SHORT_OF_MEMORY = "turns.short_of_memory"
"""Flag of a side whose allocator had to give memory back in its turns: both do not fit well."""
BUSY_WHILE_WAITING = "turns.busy_while_waiting"
"""Flag of a side that used the processor in the other one's turns, which slows both alike."""
_OF_TURNS = frozenset({"throughput", "step_time", "sm_clock"})


def paired(baseline: Result, contender: Result) -> Result:
    """The contender's Result with the baseline's in it, times from the turns that count for both.

    A side's time is the geometric mean over those turns. The log ratio of the sides' times is thus
    the trimmed mean of the turns' log ratios.

    Raises:
        ValueError: the sides had different numbers of turns.
    """
    if baseline.turns or contender.turns:
        places = counted(baseline.turns, contender.turns)
        baseline, contender = _over(places, baseline), _over(places, contender)
    return contender.model_copy(update={"baseline": baseline})


def counted(before: Sequence[Turn], after: Sequence[Turn]) -> list[int]:
    """Give the places of the turns whose differences are not among the largest or the smallest.

    Raises:
        ValueError: the sides had different numbers of turns.
    """
    differences = [
        math.log(new.step_s / old.step_s) for old, new in zip(before, after, strict=True)
    ]
    aside = int(TRIMMED * len(differences))
    by_size = sorted(range(len(differences)), key=differences.__getitem__)
    return sorted(by_size[aside : len(by_size) - aside])


def _over(places: Sequence[int], result: Result) -> Result:
    if result.status is not Status.OK:
        return result
    turns = [result.turns[place] for place in places]
    others = [one for one in result.samples if one.metric not in _OF_TURNS]
    timed = samples(turns, result.item, result.batch_items)
    return result.model_copy(update={"samples": (*timed, *others)})


def samples(turns: Sequence[Turn], item: str, batch_items: float) -> Iterator[Sample]:
    """Yield what ``turns`` tell: throughput, step time and, where every turn has one, the clock."""
    step_s = _geometric_mean([turn.step_s for turn in turns])
    yield sample("throughput", batch_items / step_s, item=item)
    yield sample("step_time", step_s)
    clocks = [turn.sm_clock_hz for turn in turns if turn.sm_clock_hz]
    if len(clocks) == len(turns):
        yield sample("sm_clock", _geometric_mean(clocks))


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))
