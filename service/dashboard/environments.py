"""Fingerprints for people: facts in groups, and what differs between two of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.dashboard.figures import environment_changes
from service.schemas.series import SeriesPoint

GROUPS = {"hw": "Hardware", "sw": "Software", "flag": "Settings in force"}


SHOWN = 20
"""How many of the newest changes of a history are listed in full."""
FACTS_SHOWN = 50
"""How many facts of a change a page lists; a driver's update changes five."""


@dataclass(frozen=True, slots=True)
class FingerprintDifference:
    """One fact that is not the same before and after."""

    fact: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class FactChange:
    """A step in a history at which the environment changed, numbered as in the chart."""

    number: int
    before: SeriesPoint
    after: SeriesPoint
    differences: tuple[FingerprintDifference, ...]


def grouped(facts: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Sort facts into hardware, software and settings, each group under its heading."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for prefix, heading in GROUPS.items():
        members = [
            (name.partition(".")[2], value)
            for name, value in sorted(facts.items())
            if name.startswith(prefix + ".")
        ]
        if members:
            groups[heading] = members
    return groups


def differences(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[FingerprintDifference, ...]:
    """List the facts that differ, in the order of their names."""
    return tuple(
        FingerprintDifference(fact, before.get(fact), after.get(fact))
        for fact in sorted(before.keys() | after.keys())
        if before.get(fact) != after.get(fact)
    )


def around_changes(points: Sequence[SeriesPoint]) -> set[str]:
    """Digests of the environments around the newest changes."""
    newest = environment_changes(points)[-SHOWN:]
    return {points[near].environment for index in newest for near in (index - 1, index)}


def changes(
    points: Sequence[SeriesPoint], facts: Mapping[str, Mapping[str, str]]
) -> tuple[FactChange, ...]:
    """List each change of environment along a history; ``facts`` is by environment digest.

    Of those before the newest `SHOWN` the differences need not be known.
    """
    return tuple(
        FactChange(
            number,
            points[index - 1],
            points[index],
            differences(
                facts.get(points[index - 1].environment, {}),
                facts.get(points[index].environment, {}),
            ),
        )
        for number, index in enumerate(environment_changes(points), start=1)
    )
