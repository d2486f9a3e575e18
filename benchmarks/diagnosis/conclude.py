"""Concludes from a Result's replicates: the verdict, and what may be tried next. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchmarks.catalog import catalog
from benchmarks.contracts import Result, Status, Verdict
from benchmarks.contracts.canary import PRODUCTS
from benchmarks.diagnosis import loader_processes, peaks, suggestions
from benchmarks.diagnosis.roofline import Ceilings
from benchmarks.diagnosis.room import make_room
from benchmarks.diagnosis.verdict import diagnose


def concluded(result: Result) -> Result:
    """``result`` with its verdict; unchanged where nothing was measured."""
    if result.status is not Status.OK or not result.replicates:
        return result
    return _with_suggestions(result, diagnose(result.replicates, ceilings_of(result)))


def advised(result: Result, neighbours: Sequence[suggestions.Neighbour]) -> Result:
    """``result`` with suggestions from ``neighbours``: cases of its workload, revision and
    hardware.

    Their rates are those that count for the verdict. Unchanged without a verdict, or if this
    version does not know the case.
    """
    if result.verdict is None:
        return result
    try:
        catalog.normalise(result.case)
    except (catalog.UnknownName, catalog.Refused):
        return result
    return _with_suggestions(result, result.verdict, neighbours)


def _with_suggestions(
    result: Result, verdict: Verdict, neighbours: Sequence[suggestions.Neighbour] = ()
) -> Result:
    """``result`` with what may make it faster, and behind that what makes room if it is short."""
    place = place_of(result)
    rooms = make_room(result, place)
    every = suggestions.suggest(result.case, verdict, place, neighbours)
    faster = [one for one in every if one not in rooms]
    update = {"suggestions": (*faster[: suggestions.MOST - len(rooms)], *rooms)}
    return result.model_copy(update={"verdict": verdict.model_copy(update=update)})


def ceilings_of(result: Result) -> Ceilings | None:
    """Return the achievable rates of the device that measured ``result``; None if not known."""
    readings = result.canary.readings if result.canary else {}
    return ceilings(result.environment.facts, readings)


def ceilings(facts: Mapping[str, str], readings: Mapping[str, float]) -> Ceilings | None:
    """Return the achievable rates of the device that ``facts`` describe; None if not known.

    ``readings`` are of that very device's canary; the table of peaks has the rest.
    """
    if facts.get("hw.device") != "cuda":
        return None
    row = peaks.match(facts)
    products = dict(row.achievable) if row else {}
    products |= {form: readings[name] for form, name in PRODUCTS.items() if name in readings}
    bandwidth = readings.get("copy_b_s", row.achievable_bandwidth if row else None)
    return Ceilings(bandwidth, products) if bandwidth and products else None


def place_of(result: Result) -> suggestions.Place:
    """Return the place where ``result`` was measured."""
    facts = result.environment.facts
    forecast = loader_processes.of_case(result.replicates)
    return suggestions.Place(
        facts.get("hw.device"),
        _cpus(facts.get("hw.cpu.usable", "")),
        _capability(facts.get("hw.gpu.capability", "")),
        declared=catalog.remembered(facts),
        loaders=forecast.enough if forecast else None,
    )


def _cpus(fact: str) -> int | None:
    return int(fact) if re.fullmatch(r"[0-9]{1,6}", fact) else None


def _capability(fact: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", fact)
    return (int(match[1]), int(match[2])) if match else None
