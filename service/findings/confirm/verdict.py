"""Analyses a suspicion by the comparisons that measured it again. Pure.

Both revisions are measured in turn, on another worker first if there is one. What they say beside
each other tells the code from everything else; where they lie beside the history's old and new
level tells an environment from a fluke, and one node from all.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from benchmarks.contracts import Contract
from service.analysis.statement import Statement
from service.findings.bad_node_statistics import LEAST_CONTRAST
from service.findings.suspicion import CLEARLY, Suspicion, Where
from service.history.change_ends import LEAST_SHARE
from service.models.confirmations import ConfirmationState as State
from service.schemas.gate import Answer


class RemeasuredValue(Contract):
    """The result of one comparison for a suspicion."""

    worker: str
    answer: Answer
    sentence: str
    """The comparison's own."""
    baseline: float
    """Geometric mean over the pairs, in the metric's unit; of the last good revision."""
    contender: float
    change_low: float
    change_high: float
    """Interval of contender over baseline minus one."""
    same_code: bool
    """Both sides ran the same code, so the revisions were not compared."""
    other_code: bool = False
    """That code is not the one which measured the suspicious point."""
    pairs: int


@dataclass(frozen=True, slots=True)
class ConfirmationVerdict:
    """The outcome, or that the suspicious worker has to be asked as well."""

    state: State
    says: Statement
    ask_suspect: bool = False


def verdict(
    suspicion: Suspicion,
    reading: RemeasuredValue,
    elsewhere: RemeasuredValue | None = None,
    ill: Collection[str] = (),
    *,
    drifts: bool = False,
) -> ConfirmationVerdict:
    """Give the verdict on a suspicion after the comparison ``reading``.

    Args:
        suspicion: what was suspected.
        reading: the newest comparison's.
        elsewhere: what another worker said before, if one was asked.
        ill: workers that are known to be slow now.
        drifts: a finding says that the series drifts. What single workers measured before it says
            little of them now, so none is named.
    """
    if reading.answer is Answer.UNKNOWN:
        return _unresolved("again_undecided", sentence=reading.sentence)
    beside = reading.answer is Answer.DIFFERENT and not reading.same_code
    other_ill = reading.worker in ill and reading.worker != suspicion.worker
    if other_ill and not beside:
        return _unresolved("known_slow", worker=reading.worker)
    if reading.same_code:
        return _without_comparison(suspicion, reading)
    if reading.answer is Answer.DIFFERENT:
        return _different(suspicion, reading)
    where = suspicion.where(reading.worker, math.sqrt(reading.baseline * reading.contender))
    if where is Where.BETWEEN:
        return _unresolved("alike_between", worker=reading.worker, **_revisions(suspicion))
    return _alike(suspicion, reading, where, elsewhere, ill, drifts)


def level_of(suspicion: Suspicion, reading: RemeasuredValue, value: float, *, newer: bool) -> Where:
    """Give the level that a process of the comparison ``reading`` was at.

    Revisions that differ beside each other are a level each: one process of the newer may come near
    the old level by chance, and was not at it.
    """
    if reading.answer is Answer.DIFFERENT and not reading.same_code:
        return Where.NEW if newer else Where.OLD
    return suspicion.where(reading.worker, value)


def _without_comparison(suspicion: Suspicion, reading: RemeasuredValue) -> ConfirmationVerdict:
    """All that can be asked is whether the newest code is slow again."""
    worker = reading.worker
    if reading.other_code:
        return _unresolved("other_code_by_now", worker=worker, first_bad=suspicion.first_bad)
    where = suspicion.where(worker, reading.contender)
    if where is Where.NEW:
        return ConfirmationVerdict(State.CONFIRMED, Statement.of("one_code_still", worker=worker))
    if where is Where.OLD:
        says = Statement.of("one_code_back", worker=worker)
        return ConfirmationVerdict(State.NOT_REPRODUCED, says)
    return _unresolved("one_code_between", worker=worker)


def _different(suspicion: Suspicion, reading: RemeasuredValue) -> ConfirmationVerdict:
    worker = reading.worker
    if not suspicion.same_way(reading.baseline, reading.contender):
        return _unresolved("differ_other_way", worker=worker)
    effect = abs(reading.contender / reading.baseline - 1.0)
    if effect < LEAST_SHARE * abs(suspicion.effect):
        return _unresolved("differ_by_less", worker=worker)
    kind = "differ_elsewhere" if worker != suspicion.worker else "differ_again"
    says = Statement.of(kind, worker=worker, pairs=reading.pairs, **_revisions(suspicion))
    return ConfirmationVerdict(State.CONFIRMED, says)


def _alike(
    suspicion: Suspicion,
    reading: RemeasuredValue,
    where: Where,
    elsewhere: RemeasuredValue | None,
    ill: Collection[str],
    drifts: bool,
) -> ConfirmationVerdict:
    revisions, other = _revisions(suspicion), reading.worker != suspicion.worker
    if where is Where.OLD and other:
        says = Statement.of("old_level_elsewhere", worker=reading.worker, **revisions)
        return ConfirmationVerdict(State.RUNNING, says, ask_suspect=True)
    if where is Where.OLD:
        says = Statement.of("old_level_again", **revisions)
        return ConfirmationVerdict(State.NOT_REPRODUCED, says)
    if elsewhere is not None:
        workers = {"worker": suspicion.worker, "other": elsewhere.worker}
        if suspicion.worse and not drifts and _apart(suspicion, reading, elsewhere):
            says = Statement.of("new_level_here", **revisions, **workers)
            return ConfirmationVerdict(State.BAD_NODE, says)
        says = Statement.of("nodes_differ", **revisions, **workers)
        return ConfirmationVerdict(State.NOT_REPRODUCED, says)
    others = suspicion.usual.by_worker.keys() - {suspicion.worker}
    if not other and others and others <= set(ill):
        return _unresolved("others_slow", worker=suspicion.worker, **revisions)
    kind, worker = (
        ("new_level_too", reading.worker) if other else ("new_level_now", suspicion.worker)
    )
    return ConfirmationVerdict(State.ENVIRONMENT, Statement.of(kind, worker=worker, **revisions))


def _apart(suspicion: Suspicion, reading: RemeasuredValue, elsewhere: RemeasuredValue) -> bool:
    """Return True if two workers lie as far apart as the suspicion is large, or nearly.

    Beside a drift both are somewhere between the levels, one a little nearer to the new one. A
    worker that was better than the other and is not clearly worse now was at another level, of
    older code for example.
    """
    usual, size = suspicion.usual, math.log(suspicion.after / suspicion.before)
    here, there = (math.sqrt(one.baseline * one.contender) for one in (reading, elsewhere))
    apart = math.log(here / there)
    ahead = math.log(usual.at(elsewhere.worker) / usual.at(reading.worker))
    if abs(suspicion.effect) < LEAST_CONTRAST or (apart + ahead) / size < 1 - CLEARLY:
        return False
    return ahead * math.copysign(1.0, size) <= LEAST_CONTRAST or apart / size >= 1 - CLEARLY


def _unresolved(kind: str, **facts: object) -> ConfirmationVerdict:
    return ConfirmationVerdict(State.UNRESOLVED, Statement.of(kind, **facts))


def _revisions(suspicion: Suspicion) -> dict[str, str]:
    return {"last_good": suspicion.last_good, "first_bad": suspicion.first_bad}
