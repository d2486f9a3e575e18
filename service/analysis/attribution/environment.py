"""Finds what differs in the environment between the last good and the first bad measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.analysis.attribution import fingerprint
from service.analysis.attribution.fingerprint import FactGroup
from service.analysis.attribution.types import Evidence, Measurement, Question
from service.analysis.statement import Statement, state
from service.schemas.findings import Part, State, Strength

Recorded = tuple[str, Mapping[str, str]]
"""The worker of a measurement, and the facts of its environment."""
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
    before, after = _recorded(question.before), _recorded(question.after)
    if different := _differences(before, after):
        return tuple(_differs(difference) for difference in sorted(different, key=_rank))
    kept, mixed = _kept([facts for _, facts in before], [facts for _, facts in after])
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
    return _differences(_recorded(before), _recorded(after))


def _recorded(side: Iterable[Measurement]) -> list[Recorded]:
    return [(measurement.worker, measurement.facts) for measurement in side]


def _differences(
    before: Sequence[Recorded], after: Sequence[Recorded]
) -> tuple[EnvironmentDifference, ...]:
    names = {name for _, facts in (*before, *after) for name in facts}
    telling = (fact for fact in sorted(names) if fingerprint.telling(fact))
    rows = (_difference(fact, before, after) for fact in telling)
    return tuple(row for row in rows if row is not None)


def _difference(
    fact: str, before: Sequence[Recorded], after: Sequence[Recorded]
) -> EnvironmentDifference | None:
    sides = [_values(fact, side) for side in (before, after)]
    if not all(sides) or not all(_holds_still(fact, side) for side in (before, after)):
        return None
    old, new = sides
    if any(fingerprint.same(fact, one, other) for one in old for other in new):
        return None
    return EnvironmentDifference(fact, old, new)


def _holds_still(fact: str, side: Iterable[Recorded]) -> bool:
    by_worker: dict[str, set[str | None]] = {}
    for worker, facts in side:
        value = facts.get(fact)
        if fingerprint.comparable(fact, value):
            by_worker.setdefault(worker, set()).add(value)
    return all(fingerprint.alike(fact, values) for values in by_worker.values())


def _kept(
    before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]
) -> tuple[list[str], list[str]]:
    """The telling facts that all measurements know: those that are alike in all, and the others."""
    all_facts = (*before, *after)
    if not before or not after:
        return [], []
    shared = set.intersection(*map(set, all_facts))
    telling = sorted(fact for fact in shared if fingerprint.telling(fact))
    kept = [
        fact for fact in telling if fingerprint.alike(fact, {facts[fact] for facts in all_facts})
    ]
    return kept, [fact for fact in telling if fact not in kept]


def _values(fact: str, side: Iterable[Recorded]) -> tuple[str | None, ...]:
    values = {facts.get(fact) for _, facts in side}
    return tuple(sorted((v for v in values if fingerprint.comparable(fact, v)), key=str))


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
