"""Finds what differs in the environment between the last good and the first bad measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.analysis.attribution import fingerprint
from service.analysis.attribution.fingerprint import FactGroup
from service.analysis.attribution.types import (
    Evidence,
    Measurement,
    Part,
    Question,
    State,
    Strength,
)
from service.analysis.statement import Statement, state

NONE = "none"
"""How the absence of a variable or a package is written."""


@dataclass(frozen=True, slots=True)
class EnvironmentDifference:
    """One fact that every measurement after the change has otherwise than every one before it."""

    fact: str
    before: tuple[str | None, ...]
    after: tuple[str | None, ...]
    """The values, sorted; several only where workers differ among themselves."""

    @property
    def says(self) -> Statement:
        """Half a sentence: ``driver 550 -> 560``."""
        if self.fact in fingerprint.DIGESTS:
            return state("digest_changed", fact=self.fact)
        return state("fact_changed", fact=self.fact, before=self.before, after=self.after)


def evidence(question: Question) -> tuple[Evidence, ...]:
    """The facts that differ, those that may carry a cause first; or that none does.

    Empty if the software of a side is not known.
    """
    found = differences(question.before, question.after)
    if found:
        return tuple(_differs(each) for each in sorted(found, key=_rank))
    kept, mixed = _kept(question.before, question.after)
    if not any(fact.startswith("sw.") for fact in kept):
        return ()
    kind = "environment_mixed" if mixed else "environment_unchanged"
    says = state(kind, unchanged=len(kept))
    return (Evidence(Part.ENVIRONMENT, "environment", State.UNCHANGED, Strength.STRONG, says),)


def differences(
    before: Sequence[Measurement], after: Sequence[Measurement]
) -> tuple[EnvironmentDifference, ...]:
    """List the telling facts that differ consistently, by name.

    A fact differs consistently if each worker holds one value of it on each side, and no value
    occurs on both sides, whoever measured.
    """
    names = _names(before) | _names(after)
    found = (
        _difference(fact, before, after) for fact in sorted(names) if fingerprint.telling(fact)
    )
    return tuple(each for each in found if each is not None)


def _difference(
    fact: str, before: Sequence[Measurement], after: Sequence[Measurement]
) -> EnvironmentDifference | None:
    sides = [_values(fact, side) for side in (before, after)]
    if not all(sides) or not all(_holds_still(fact, side) for side in (before, after)):
        return None
    old, new = sides
    if any(fingerprint.same(fact, one, other) for one in old for other in new):
        return None
    return EnvironmentDifference(fact, old, new)


def _holds_still(fact: str, side: Iterable[Measurement]) -> bool:
    by_worker: dict[str, set[str | None]] = {}
    for each in side:
        value = each.facts.get(fact)
        if fingerprint.comparable(fact, value):
            by_worker.setdefault(each.worker, set()).add(value)
    return all(fingerprint.alike(fact, values) for values in by_worker.values())


def _kept(
    before: Sequence[Measurement], after: Sequence[Measurement]
) -> tuple[list[str], list[str]]:
    """The telling facts that all measurements know: those that are alike in all, and the others."""
    everyone = (*before, *after)
    if not before or not after:
        return [], []
    shared = set.intersection(*(set(each.facts) for each in everyone))
    telling = sorted(fact for fact in shared if fingerprint.telling(fact))
    kept = [fact for fact in telling if fingerprint.alike(fact, {e.facts[fact] for e in everyone})]
    return kept, [fact for fact in telling if fact not in kept]


def _values(fact: str, side: Iterable[Measurement]) -> tuple[str | None, ...]:
    found = {each.facts.get(fact) for each in side}
    return tuple(sorted((v for v in found if fingerprint.comparable(fact, v)), key=str))


def _names(side: Iterable[Measurement]) -> set[str]:
    return {name for each in side for name in each.facts}


def _rank(difference: EnvironmentDifference) -> tuple[bool, int, str]:
    return (
        weak(difference.fact),
        list(FactGroup).index(fingerprint.group(difference.fact)),
        difference.fact,
    )


def weak(fact: str) -> bool:
    """Return True if a difference of ``fact`` says too little to carry a cause."""
    return fact in fingerprint.DIGESTS


def _differs(difference: EnvironmentDifference) -> Evidence:
    return Evidence(
        part=Part.ENVIRONMENT,
        name=difference.fact,
        state=State.CHANGED,
        strength=Strength.WEAK if weak(difference.fact) else Strength.STRONG,
        says=difference.says,
        before=_written(difference.before),
        after=_written(difference.after),
    )


def _written(values: Iterable[str | None]) -> str:
    return " or ".join(NONE if value is None else value for value in values)
