"""The report of a climb: as JSON, and as the ladder that a person reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from benchmarks import contracts
from benchmarks.diagnosis import hill_climb, suggestions
from benchmarks.diagnosis.hill_climb import Ending, Rung
from cli.output.console import Console, table
from service.wording import formats


@dataclass
class Climb:
    """The rungs so far, and how it ended."""

    budget_s: float
    rungs: list[Rung] = field(default_factory=list)
    ending: Ending | None = None
    unit: str = ""
    hardware: str = ""
    place: suggestions.Place = field(default_factory=suggestions.Place)

    @property
    def best(self) -> Rung | None:
        """The rung to climb on."""
        return hill_climb.best_of(self.rungs)

    def document(self) -> dict[str, Any]:
        """All of it, as ``--json`` prints it."""
        best, first = self.best, self.rungs[0]
        return {
            "ended": self.ending.value if self.ending else None,
            "budget_s": self.budget_s,
            "took_s": sum(rung.took_s for rung in self.rungs),
            "hardware": self.hardware,
            "unit": self.unit,
            "best": best.case.key if best else None,
            "speedup": best.full / first.full if best else None,
            "speedup_synth": best.synth / first.synth if best else None,
            "rungs": [
                _written(rung, self._advised(rung), kept=kept)
                for rung, kept in zip(self.rungs, hill_climb.kept(self.rungs), strict=True)
            ],
        }

    def _advised(self, rung: Rung) -> contracts.Verdict | None:
        """A rung's verdict, its suggestions tied to what the other rungs measured."""
        if rung.verdict is None:
            return None
        full = suggestions.rate_that_counts(rung.verdict) == "throughput"
        usable = [one for one in self.rungs if one.usable]
        beside = [
            suggestions.Neighbour(one.case, one.full if full else one.synth) for one in usable
        ]
        advice = suggestions.suggest(rung.case, rung.verdict, self.place, beside)
        return rung.verdict.model_copy(update={"suggestions": advice})


def _written(rung: Rung, verdict: contracts.Verdict | None, *, kept: bool) -> dict[str, Any]:
    move, parity = rung.move, rung.parity
    return {
        "case": rung.case.model_dump(mode="json"),
        "tried": f"{move.axis}={move.value}" if move else None,
        "because": move.reason if move else None,
        "status": rung.status.value,
        "reason": rung.reason,
        "throughput": rung.full or None,
        "throughput_synth": rung.synth or None,
        "noise": rung.noise,
        "noise_synth": rung.noise_synth,
        "kept": kept,
        "took_s": rung.took_s,
        "parity": parity and {"status": parity.status.value, "reason": parity.reason},
        "flags": list(rung.flags),
        "verdict": verdict.model_dump(mode="json") if verdict else None,
    }


def show(climb: Climb, console: Console) -> None:
    """Print the ladder, where it ended, and what limits it there."""
    right = ("throughput", "without the loader", "gain")
    drawn = table("step", *right, "limited by", right=right, whole=(*right, "limited by"))
    drawn.columns[0].min_width = 20
    base: Rung | None = None
    for rung, kept in zip(climb.rungs, hill_climb.kept(climb.rungs), strict=True):
        drawn.add_row(*_cells(rung, base, climb.unit), style="" if kept else "dim")
        base = rung if kept else base
    console.print(drawn)
    for rung in climb.rungs:
        for remark in remarks(rung):
            console.say(f"{_step_name(rung)}: {remark}")
    for line in _closing(climb):
        console.say(line)


def _cells(rung: Rung, base: Rung | None, unit: str) -> tuple[str | Text, ...]:
    name = _step_name(rung)
    if rung.status is not contracts.Status.OK:
        return name, Text(rung.status.value, style="red"), "", "", ""
    gain = formats.times(hill_climb.gain(rung, base)) if base else ""
    limit = rung.verdict.bottleneck.value if rung.verdict else formats.DASH
    rates = formats.quantity(rung.full, unit), formats.quantity(rung.synth, unit)
    wrong = "" if rung.right else " wrong result"
    return name, *rates, gain + wrong, limit


def _step_name(rung: Rung) -> str:
    return f"{rung.move.axis}={rung.move.value}" if rung.move else rung.case.key


_ENDINGS = {
    Ending.SUMMIT: f"Nothing else is left to try that may bring more than {hill_climb.WORTH:.0%}.",
    Ending.BUDGET: "The budget is spent; a larger --budget may find more.",
    Ending.HELD: "Processes of an earlier case hold the device; this was climbed before that.",
    Ending.INTERRUPTED: "Interrupted; this is what was climbed so far.",
    Ending.FAILED: "The first case could not be measured.",
}


def _closing(climb: Climb) -> list[str]:
    best, first = climb.best, climb.rungs[0]
    lines = [_ENDINGS[climb.ending]] if climb.ending else []
    if best is None:
        return [*lines, first.reason]
    faster = formats.times(best.full / first.full)
    without = formats.times(best.synth / first.synth)
    lines.append(f"Best: {best.case.key}: {faster}, without the loader {without}.")
    if best is not first:
        lines.append(f"Its loss over more steps: throughline bench {best.case.key} --parity long")
    if best.verdict is not None:
        lines.append(f"There: {answer(best.verdict)} {best.verdict.sentence}")
    return lines


def remarks(rung: Rung) -> Iterator[str]:
    """Give the reasons to doubt the result of a rung, a line each."""
    parity = rung.parity
    measured = rung.status is contracts.Status.OK  # a failure says its reason anyway
    if measured and parity is not None and parity.status is not contracts.ParityStatus.PASS:
        yield ": ".join(filter(None, [f"parity {parity.status.value}", parity.reason]))
    if rung.flags:
        yield f"flags: {', '.join(rung.flags)}"


def answer(verdict: contracts.Verdict) -> str:
    """The answer to "input-bound or GPU-bound?", in two words."""
    if verdict.bottleneck is contracts.Bottleneck.UNKNOWN:
        return "Not known."
    return f"{verdict.bottleneck.value}-bound, {verdict.confidence} confidence."
