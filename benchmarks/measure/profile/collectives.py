"""Traced steps of a gang: each rank's own, and how long its ranks waited for each other. Pure.

Ranks have no common clock. A collective of which all ranks must have a part ends on all at once, so
its shortest duration is the transfer: that of the rank that arrived last. Longer ones waited.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.contracts import GangTrace, TracedRank
from benchmarks.measure.profile.reading import Unreadable, length, window_of
from benchmarks.measure.profile.timeline import Collective, Event, Span, Timeline, read, union


@dataclass(frozen=True)
class RankSteps:
    """The traced steps of one rank, in s on its own clock."""

    steps: tuple[Span, ...]
    compute_s: tuple[float, ...]
    """Seconds of each step in which something else than communication ran."""
    exposed: tuple[Span, ...]
    """Nothing but communication ran, in order."""
    collectives: tuple[Collective, ...]
    """In order of start."""
    contention_s: tuple[float, ...] | None = None
    """Seconds of each step by which kernels take longer than without exchange."""


def rank_steps(
    events: Iterable[Event], lead: int, without: Iterable[Event] | None = None
) -> RankSteps:
    """Read one rank's trace.

    Args:
        events: of steps of the gang.
        lead: first steps that do not count.
        without: events of as many steps without exchange.

    Raises:
        Unreadable: a trace has no usable steps.
    """
    timeline = read(events)
    steps = _steps(timeline, lead)
    computing = _computing(timeline)
    communicating = union((one.start_s, one.end_s) for one in timeline.collectives)
    return RankSteps(
        steps=steps,
        compute_s=tuple(length(shared(computing, [step])) for step in steps),
        exposed=tuple(shared(communicating, _between(computing))),
        collectives=timeline.collectives,
        contention_s=None if without is None else _contention_s(timeline, read(without), lead),
    )


def _computing(timeline: Timeline) -> list[Span]:
    computes, waits = (
        union((w.start_s, w.end_s) for w in timeline.work if (w.kind == "communication") == is_wait)
        for is_wait in (False, True)
    )
    # An operator of a CPU also lasts while one that it calls waits for a collective.
    return computes if timeline.on_gpu else shared(computes, _between(waits))


def _between(spans: Sequence[Span]) -> list[Span]:
    """The time before, between and after spans that are in order and do not overlap."""
    edges = [-math.inf, *(edge for span in spans for edge in span), math.inf]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _steps(timeline: Timeline, lead: int) -> tuple[Span, ...]:
    starts, end = window_of(timeline)
    if len(starts) <= lead:
        raise Unreadable("The profiler recorded too few steps.")
    return tuple(zip(starts[lead:], [*starts[lead + 1 :], end], strict=True))


def _contention_s(gang: Timeline, without: Timeline, lead: int) -> tuple[float, ...]:
    """Give for each step the seconds by which the same kernels, as many of each name, take longer
    in the gang."""
    beside, apart = (_kernels(one, lead) for one in (gang, without))
    (calls, calls_apart) = (
        sum((Counter(of) for _, of in one), Counter[str]()) for one in (beside, apart)
    )
    same = {name for name in calls if calls[name] == calls_apart[name]}
    usual_s = math.fsum(math.fsum(of[name] for name in same) for of, _ in apart) / len(apart)
    return tuple(math.fsum(of[name] for name in same) - usual_s for of, _ in beside)


def _kernels(timeline: Timeline, lead: int) -> list[tuple[dict[str, float], Counter[str]]]:
    """Give for each step the seconds and calls of each kernel that starts in it and does not
    communicate."""
    steps = _steps(timeline, lead)
    starts = [start for start, _ in steps]
    told = [(defaultdict[str, float](float), Counter[str]()) for _ in steps]
    for item in timeline.work:
        step = bisect_right(starts, item.start_s) - 1
        if item.kind != "communication" and step >= 0 and item.start_s < steps[-1][1]:
            seconds, calls = told[step]
            seconds[item.name] += item.self_s
            calls[item.name] += 1
    return list(told)


def paired(told: Sequence[RankSteps | str]) -> GangTrace:
    """Pair the collectives of all ranks by process group and running index.

    Absent if a rank's steps are a sentence that says why they are not known, or if ranks did not
    take part in as many collectives of a group.
    """
    if failed := next((one for one in told if isinstance(one, str)), ""):
        return GangTrace(absent=failed)
    try:
        return _paired([one for one in told if isinstance(one, RankSteps)])
    except Unreadable as error:
        return GangTrace(absent=str(error))


def _paired(ranks: Sequence[RankSteps]) -> GangTrace:
    moved = _transfers([_by_group(rank.collectives) for rank in ranks])
    exposed = [_in_steps(rank, rank.exposed) for rank in ranks]
    moving = [
        _in_steps(rank, shared(rank.exposed, union(own)))
        for rank, own in zip(ranks, moved, strict=True)
    ]
    held = [_held(rank, own) for rank, own in zip(ranks, exposed, strict=True)]
    longest = [max(of_step) for of_step in zip(*held, strict=True)]
    lateness = [
        [most - own for most, own in zip(longest, of_rank, strict=True)] for of_rank in held
    ]
    return GangTrace(
        ranks=tuple(map(_traced, ranks, exposed, moving, lateness)),
        collectives=_a_step(ranks[0]),
    )


def _held(rank: RankSteps, exposed_s: Sequence[float]) -> list[float]:
    """Give for each step the seconds for which others hold a rank up.

    While a collective waits for a late rank, its kernels keep their part of the device: what runs
    beside them takes longer, by as much as that rank is late if enough runs.
    """
    more = rank.contention_s or [0.0] * len(exposed_s)
    return [exposed + slower for exposed, slower in zip(exposed_s, more, strict=True)]


def _a_step(rank: RankSteps) -> float:
    starts = (one.start_s for one in rank.collectives)
    counted = sum(rank.steps[0][0] <= start < rank.steps[-1][1] for start in starts)
    return counted / len(rank.steps)


def _by_group(collectives: Iterable[Collective]) -> dict[str, list[Collective]]:
    groups: dict[str, list[Collective]] = defaultdict(list)
    for one in collectives:
        groups[one.group].append(one)
    return groups


def _transfers(ranks: Sequence[dict[str, list[Collective]]]) -> list[list[Span]]:
    """Each rank's spans of transfer: its collectives, once all ranks have arrived."""
    if not any(ranks):
        raise Unreadable("The profiler recorded no collective.")
    spans: list[list[Span]] = [[] for _ in ranks]
    for group in sorted({name for rank in ranks for name in rank}):
        members = [number for number, rank in enumerate(ranks) if group in rank]
        if len({len(ranks[number][group]) for number in members}) > 1:
            raise Unreadable("The ranks did not record as many collectives.")
        for together in zip(*(ranks[number][group] for number in members), strict=True):
            transfer_s = min(one.end_s - one.start_s for one in together)
            for number, one in zip(members, together, strict=True):
                spans[number].append((one.end_s - transfer_s, one.end_s))
    return spans


def _in_steps(rank: RankSteps, spans: Sequence[Span]) -> list[float]:
    return [length(shared(spans, [step])) for step in rank.steps]


def _traced(
    rank: RankSteps,
    exposed_s: Sequence[float],
    transfer_s: Sequence[float],
    lateness_s: Sequence[float],
) -> TracedRank:
    """A rank from each step's exposed communication, its part in transfer, and how much less it is
    held up than the rank that is held up most. Steps last as long on all ranks: one that is held up
    less has more of its own to do, and is late."""
    steps = len(rank.steps)
    step, compute, exposed, transfer = (
        math.fsum(seconds) / steps
        for seconds in ([length(rank.steps)], rank.compute_s, exposed_s, transfer_s)
    )
    return TracedRank(
        step_s=step,
        compute_s=compute,
        transfer_s=transfer,
        wait_s=max(0.0, exposed - transfer),
        idle_s=max(0.0, step - compute - exposed),
        contention_s=None if rank.contention_s is None else math.fsum(rank.contention_s) / steps,
        lateness_s=tuple(lateness_s),
    )


def shared(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """Return where two sequences of spans overlap; each is in order and has no overlaps itself."""
    both, here, there = [], 0, 0
    while here < len(one) and there < len(other):
        start, end = max(one[here][0], other[there][0]), min(one[here][1], other[there][1])
        if start < end:
            both.append((start, end))
        if one[here][1] < other[there][1]:
            here += 1
        else:
            there += 1
    return both
