"""Chooses the next case worth trying from the measured ones: how `throughline diagnose` climbs.
Pure.

A climb begins at one case. Each further case is the best one so far with one move made. It is kept
if it computes the same and was faster by more than `LEAST` and by more than the noise. Two rates
count: FULL, with the loader, and SYNTH, without. Where the loader is the limit, a faster step shows
in SYNTH alone; it is kept if FULL does not lose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import NamedTuple

from benchmarks import contracts
from benchmarks.diagnosis import reasons, suggestions

WORTH = 0.02
"""Least bound that is worth a try; also the loss of FULL that may be the loader's noise."""
SURE = 0.6
"""Share of the 95 % interval that a gain must exceed: right about nine times in ten. A useless
setting that is kept costs little, and a longer look at each case costs the next ones."""
SLOW_S = 480.0
"""Time that must be left to begin a slow move: max-autotune took ResNet-50 on an H200 up to 473
s."""


class Ending(StrEnum):
    """The reason why a climb ended."""

    SUMMIT = "summit"
    """Nothing is left to try that may bring more than `WORTH`."""
    BUDGET = "budget"
    FAILED = "failed"
    """The first case could not be measured."""
    HELD = "held"
    """What an earlier case left behind does not leave the device."""
    INTERRUPTED = "interrupted"


class Bar(NamedTuple):
    """Rates in items per second, of which a case must beat one to be looked at more closely."""

    full: float
    synth: float


@dataclass(frozen=True)
class Rung:
    """One measured case of a climb."""

    case: contracts.Case
    status: contracts.Status
    reason: str = ""
    """Why it has no rates."""
    full: float = 0.0
    """Items per second with the loader."""
    synth: float = 0.0
    noise: float = 0.0
    """Relative half-width of ``full``."""
    noise_synth: float = 0.0
    verdict: contracts.Verdict | None = None
    parity: contracts.Parity | None = None
    """The comparison with fp32 eager training; None if it was not requested."""
    flags: tuple[str, ...] = ()
    """What a reader should know of how it was measured."""
    move: suggestions.Move | None = None
    """What was tried; None of the first case."""
    took_s: float = 0.0

    @property
    def right(self) -> bool:
        """Return False only if parity failed; an undecided parity is shown and rejects nothing."""
        return self.parity is None or self.parity.status is not contracts.ParityStatus.FAIL

    @property
    def usable(self) -> bool:
        """Return True if the climb may go on from this rung."""
        return self.status is contracts.Status.OK and self.right


def rung_of(result: contracts.Result, move: suggestions.Move | None, took_s: float) -> Rung:
    """Return the parts of a result that a climb needs."""
    rung = Rung(
        case=result.case,
        status=result.status,
        reason=result.reason,
        parity=result.parity,
        flags=result.flags,
        move=move,
        took_s=took_s,
    )
    if result.status is not contracts.Status.OK or not result.replicates:
        return rung
    rates = {sample.metric: sample.values for sample in result.samples}
    return replace(
        rung,
        full=_mean(rates["throughput"]),
        synth=_mean(rates["throughput_synth"]),
        noise=_noise([r.full for r in result.replicates]),
        noise_synth=_noise([r.synth for r in result.replicates]),
        verdict=result.verdict,
    )


def _noise(passes: Sequence[contracts.Pass]) -> float:
    return max((timed.half_width or 0.0) / timed.rate for timed in passes)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def gain(rung: Rung, base: Rung) -> float:
    """Factor by which ``rung`` is faster: in FULL, or in SYNTH where FULL is unchanged."""
    full, synth = rung.full / base.full, rung.synth / base.synth
    same = abs(full - 1.0) <= _beyond(WORTH, rung.noise, base.noise)
    return max(full, synth) if same else full


def helped(rung: Rung, base: Rung) -> bool:
    """Return True if ``rung`` is enough faster than ``base`` to climb on from it."""
    if not rung.usable:
        return False
    full, synth = rung.full / base.full, rung.synth / base.synth
    if full > 1.0 + _beyond(suggestions.LEAST, rung.noise, base.noise):
        # A step that got slower is not faster for a loader that happened to be.
        of_input = rung.move is not None and rung.move.axis in reasons.INPUT
        return of_input or synth >= 1.0 - _beyond(WORTH, rung.noise_synth, base.noise_synth)
    faster_step = synth > 1.0 + _beyond(suggestions.LEAST, rung.noise_synth, base.noise_synth)
    return faster_step and full >= 1.0 - _beyond(WORTH, rung.noise, base.noise)


def bar(best: Rung) -> Bar:
    """Return the rates of which a case must beat one to be kept, however small its noise.

    A case that beats neither is only timed: its verdict and parity would take longer than its
    rates.
    """
    return Bar(best.full * (1.0 + suggestions.LEAST), best.synth * (1.0 + suggestions.LEAST))


def _beyond(least: float, *noise: float) -> float:
    return max(least, SURE * math.hypot(*noise))


def kept(rungs: Sequence[Rung]) -> tuple[bool, ...]:
    """For each rung of a climb whether it became the best one, in turn."""
    best: Rung | None = None
    outcomes = []
    for rung in rungs:
        better = rung.usable and (best is None or helped(rung, best))
        best = rung if better else best
        outcomes.append(better)
    return tuple(outcomes)


def best_of(rungs: Sequence[Rung]) -> Rung | None:
    """The rung to climb on; None where none could be measured."""
    improvements = [rung for rung, good in zip(rungs, kept(rungs), strict=True) if good]
    return improvements[-1] if improvements else None


def next_move(
    rungs: Sequence[Rung], place: suggestions.Place, left_s: float
) -> suggestions.Move | Ending:
    """Choose the next move that fits into ``left_s`` seconds, or end the climb."""
    best = best_of(rungs)
    if best is None or best.verdict is None:
        return Ending.FAILED
    place = replace(place, refused=frozenset(_refused(rungs)))
    move = next(_untried(rungs, best, best.verdict, place), None)
    if move is None:
        return Ending.SUMMIT
    return move if left_s >= _need_s(rungs, best, move) else Ending.BUDGET


def _need_s(rungs: Sequence[Rung], best: Rung, move: suggestions.Move) -> float:
    alike_to = suggestions.with_move(best.case, move).is_compiled
    alike = [rung.took_s for rung in rungs if rung.case.is_compiled == alike_to]
    need_s = median(alike or [rung.took_s for rung in rungs])
    return max(need_s, SLOW_S) if suggestions.is_slow(move) else need_s


def _refused(rungs: Sequence[Rung]) -> Iterator[tuple[str, str]]:
    for rung in rungs:
        if rung.move is not None and rung.status is contracts.Status.UNSUPPORTED:
            yield rung.move.axis, rung.move.value


def _untried(
    rungs: Sequence[Rung], best: Rung, verdict: contracts.Verdict, place: suggestions.Place
) -> Iterator[suggestions.Move]:
    """Moves from the best rung, those against its limit first, and of them the compiler last."""
    known = {rung.case.key for rung in rungs}
    spent = _spent(rungs)
    seen: set[tuple[str, str]] = set()
    against = sorted(
        suggestions.moves(best.case, verdict, place), key=lambda move: move.axis == "compile"
    )
    for move in (*against, *_others(best.case, verdict, place)):
        pair = move.axis, move.value
        new = pair not in seen and pair not in spent
        seen.add(pair)
        if new and suggestions.with_move(best.case, move).key not in known:
            yield move


def _others(
    case: contracts.Case, verdict: contracts.Verdict, place: suggestions.Place
) -> Iterator[suggestions.Move]:
    if verdict.bounds and all(bound <= 1.0 + WORTH for bound in _bounds(verdict)):
        return
    yield from suggestions.other_moves(case, verdict, place)


def _bounds(verdict: contracts.Verdict) -> Iterator[float]:
    yield verdict.bounds.get("without_input_stall", 1.0)
    yield verdict.bounds.get("at_roofline", float("inf"))


def _spent(rungs: Sequence[Rung]) -> set[tuple[str, str]]:
    """Moves that did not help and are not tried again: they failed, or the situation is unchanged.

    A move of the input may help once the step is faster, and a move of the step once batches come
    in time. A layout's effect depends on the arithmetic and on the compiler.
    """
    spent = set()
    best: Rung | None = None
    last = best_of(rungs)
    for rung, good in zip(rungs, kept(rungs), strict=True):
        if rung.move is not None and best is not None and not good:
            same = last is not None and _situation(last) == _situation(best)
            if same or not rung.usable:
                spent.add((rung.move.axis, rung.move.value))
        best = rung if good else best
    return spent


def _situation(rung: Rung) -> tuple[contracts.Bottleneck | None, str | None, bool]:
    limit = rung.verdict.bottleneck if rung.verdict else None
    return limit, rung.case.axes.get("precision"), rung.case.is_compiled
