"""What a Result concludes from its replicates: the verdict, and what may be tried next. Pure."""

from __future__ import annotations

from benchmarks.contracts import Result, Status
from benchmarks.demands import Ceilings
from benchmarks.suggestions import Place, suggest
from benchmarks.verdict import judge


def concluded(result: Result, ceilings: Ceilings | None = None) -> Result:
    """``result`` with its verdict; unchanged where nothing was measured.

    Args:
        result: with its replicates.
        ceilings: achievable rates of the device that it was measured on.
    """
    if result.status is not Status.OK or not result.replicates:
        return result
    verdict = judge(result.replicates, ceilings)
    suggestions = suggest(result.case, verdict, place_of(result))
    told = verdict.model_copy(update={"suggestions": suggestions})
    return result.model_copy(update={"verdict": told})


def place_of(result: Result) -> Place:
    """Where ``result`` was measured."""
    facts = result.environment.facts
    cpus = facts.get("hw.cpu.usable", "")
    return Place(facts.get("hw.device"), int(cpus) if cpus.isdigit() else None)
