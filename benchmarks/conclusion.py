"""What a Result concludes from its replicates: the verdict, and what may be tried next. Pure."""

from __future__ import annotations

from benchmarks import peaks
from benchmarks.contracts import Result, Status
from benchmarks.demands import Ceilings
from benchmarks.suggestions import Place, suggest
from benchmarks.verdict import judge


def concluded(result: Result) -> Result:
    """``result`` with its verdict; unchanged where nothing was measured."""
    if result.status is not Status.OK or not result.replicates:
        return result
    verdict = judge(result.replicates, ceilings_of(result))
    suggestions = suggest(result.case, verdict, place_of(result))
    told = verdict.model_copy(update={"suggestions": suggestions})
    return result.model_copy(update={"verdict": told})


def ceilings_of(result: Result) -> Ceilings | None:
    """What the device that measured ``result`` can reach; None where that was never measured."""
    row = peaks.match(result.environment.facts)
    if row is None or row.achievable_bandwidth is None or not row.achievable:
        return None
    return Ceilings(row.achievable_bandwidth, row.achievable)


def place_of(result: Result) -> Place:
    """Where ``result`` was measured."""
    facts = result.environment.facts
    cpus = facts.get("hw.cpu.usable", "")
    return Place(facts.get("hw.device"), int(cpus) if cpus.isdigit() else None)
