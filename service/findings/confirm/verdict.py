"""Judges a suspicion by the comparisons that measured it again. Pure.

Both revisions are measured in turn, on another worker first if there is one. What they say beside
each other tells the code from everything else; where they lie beside the history's old and new
level tells an environment from a fluke, and one node from all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.contracts import Contract
from service.analysis.gate.sequential import Answer
from service.findings.bad_node_statistics import LEAST_CONTRAST
from service.findings.confirm.suspicion import Suspicion, Where
from service.models.confirmations import ConfirmationState as State

LEAST_SHARE = 0.5
"""Of what was suspected: a surprise looks larger than it is, and what is left of a fluke when it
happens to be confirmed is small."""


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
    """Both sides ran the same code, so the revisions were not told apart."""
    other_code: bool = False
    """That code is not the one which measured the suspicious point."""
    pairs: int


@dataclass(frozen=True, slots=True)
class ConfirmationVerdict:
    """The outcome, or that the suspicious worker has to be asked as well."""

    state: State
    sentence: str
    ask_suspect: bool = False


def verdict(
    told: Suspicion,
    reading: RemeasuredValue,
    elsewhere: RemeasuredValue | None = None,
    ill: frozenset[str] = frozenset(),
) -> ConfirmationVerdict:
    """Give the verdict on a suspicion after the comparison ``reading``.

    Args:
        told: what was suspected.
        reading: the newest comparison's.
        elsewhere: what another worker said before, if one was asked.
        ill: workers that are known to be slow.
    """
    if reading.answer is Answer.UNKNOWN:
        return ConfirmationVerdict(
            State.UNRESOLVED, f"Measuring again did not decide it: {reading.sentence}"
        )
    beside = reading.answer is Answer.DIFFERENT and not reading.same_code
    if reading.worker in ill - {told.worker} and not beside:
        return ConfirmationVerdict(
            State.UNRESOLVED,
            f"{reading.worker} is known to be slow: without a difference between the revisions, "
            "what it measures says nothing of them.",
        )
    if reading.same_code:
        return _without_comparison(told, reading)
    if reading.answer is Answer.DIFFERENT:
        return _different(told, reading)
    where = told.where(reading.worker, math.sqrt(reading.baseline * reading.contender))
    if where is Where.BETWEEN:
        return ConfirmationVerdict(
            State.UNRESOLVED,
            f"On {reading.worker} {told.last_good} and {told.first_bad} are alike, between the old "
            "level and the new one.",
        )
    return _alike(told, reading, where, elsewhere)


def _without_comparison(told: Suspicion, reading: RemeasuredValue) -> ConfirmationVerdict:
    """All that can be asked is whether the newest code is slow again."""
    if reading.other_code:
        return ConfirmationVerdict(
            State.UNRESOLVED,
            f"{reading.worker} runs other code by now than the one that {told.first_bad} was "
            "measured with: it says nothing of it.",
        )
    where = told.where(reading.worker, reading.contender)
    note = f"{reading.worker} has one code for both revisions, so they were not compared"
    if where is Where.NEW:
        return ConfirmationVerdict(State.CONFIRMED, f"Measured again, and still so; {note}.")
    if where is Where.OLD:
        return ConfirmationVerdict(
            State.NOT_REPRODUCED, f"Measured again, and back at the old level; {note}."
        )
    return ConfirmationVerdict(
        State.UNRESOLVED, f"Measured again, between the old level and the new; {note}."
    )


def _different(told: Suspicion, reading: RemeasuredValue) -> ConfirmationVerdict:
    found = abs(reading.contender / reading.baseline - 1.0)
    if told.same_way(reading.baseline, reading.contender) and found < LEAST_SHARE * abs(
        told.effect
    ):
        return ConfirmationVerdict(
            State.UNRESOLVED,
            f"The revisions differ on {reading.worker}, by less than half of what was suspected.",
        )
    if not told.same_way(reading.baseline, reading.contender):
        return ConfirmationVerdict(
            State.UNRESOLVED,
            f"On {reading.worker} the revisions differ the other way round.",
        )
    where = "another worker" if reading.worker != told.worker else "the same worker"
    return ConfirmationVerdict(
        State.CONFIRMED,
        f"{told.first_bad} and {told.last_good} differ beside each other too, on {where} "
        f"({reading.worker}, {reading.pairs} pairs).",
    )


def _alike(
    told: Suspicion,
    reading: RemeasuredValue,
    where: Where,
    elsewhere: RemeasuredValue | None,
) -> ConfirmationVerdict:
    revisions = f"{told.last_good} and {told.first_bad}"
    other = reading.worker != told.worker
    if where is Where.OLD and other:
        return ConfirmationVerdict(
            State.RUNNING,
            f"On {reading.worker} {revisions} are both at the old level.",
            ask_suspect=True,
        )
    if where is Where.OLD:
        return ConfirmationVerdict(
            State.NOT_REPRODUCED, f"Measured again, {revisions} are both at the old level."
        )
    if elsewhere is not None and not (told.worse and abs(told.effect) >= LEAST_CONTRAST):
        return ConfirmationVerdict(
            State.NOT_REPRODUCED,
            f"{revisions} are alike on {told.worker} and on {elsewhere.worker}, which differ as "
            "nodes of one kind do.",
        )
    if elsewhere is not None:
        return ConfirmationVerdict(
            State.BAD_NODE,
            f"{revisions} are both at the new level on {told.worker}, and both at the old one on "
            f"{elsewhere.worker}.",
        )
    if other:
        return ConfirmationVerdict(
            State.ENVIRONMENT,
            f"{revisions} are both at the new level, on {reading.worker} as well: what changed is "
            "around the code.",
        )
    return ConfirmationVerdict(
        State.ENVIRONMENT,
        f"{revisions} are both at the new level now: what changed is around the code. There is no "
        f"other worker to ask, so {told.worker} itself is not excluded.",
    )
