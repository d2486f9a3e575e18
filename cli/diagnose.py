"""Climbs from one case: measures, names the limit, tries what may lift it, keeps what helped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks import climb
from benchmarks.climb import Ending, Rung
from benchmarks.conclusion import place_of
from benchmarks.contracts import Bottleneck, Case, Protocol, Result, Status, Verdict
from benchmarks.parity import FEED
from benchmarks.suggestions import Move, with_move
from cli import bench
from cli.console import Console
from cli.exits import Exit, Stop
from service import formats

BRIEF = Protocol(
    warmup_min_steps=5,
    warmup_min_s=1.0,
    warmup_max_s=3.0,
    settle_max_s=0.0,
    window_min_s=2.0,
    window_min_steps=12,
    window_min_blocks=6,
    window_max_s=4.0,
    block_min_s=0.1,
    block_min_steps=2,
    precision=0.01,
    profile=True,
    parity=True,
)
"""Short windows: the first verdict within a minute, also where the first step takes half of it."""
LEAST_S = 60.0
"""Seconds that even the first case gets, whatever the budget."""

Measure = Callable[[Case, float], Result]
"""Measures a case within so many seconds."""


@dataclass
class Climb:
    """The rungs so far, and how it ended."""

    budget_s: float
    rungs: list[Rung] = field(default_factory=list)
    ending: Ending | None = None
    unit: str = ""
    hardware: str = ""

    @property
    def best(self) -> Rung | None:
        """The rung to climb on."""
        return climb.best_of(self.rungs)

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
                _written(rung, kept=kept)
                for rung, kept in zip(self.rungs, climb.kept(self.rungs), strict=True)
            ],
        }


def _written(rung: Rung, *, kept: bool) -> dict[str, Any]:
    move = rung.move
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
        "verdict": rung.verdict.model_dump(mode="json") if rung.verdict else None,
    }


def run(measure: Measure, first: Case, budget_s: float, told: Console) -> Climb:
    """Climb from ``first`` until nothing is left or the budget is spent.

    Args:
        measure: measures one case.
        first: where to begin.
        budget_s: seconds for all of it.
        told: where it says how it gets on.

    Raises:
        Stop: the first case cannot even be tried.
    """
    end_s = time.monotonic() + budget_s
    found = Climb(budget_s)
    result, took_s = _timed(measure, first, max(LEAST_S, budget_s))
    found.rungs.append(climb.rung_of(result, None, took_s))
    found.unit = f"{result.item}/s"
    found.hardware = formats.hardware(result.environment.comparability())
    _say_first(found.rungs[0], told)
    place = place_of(result)
    try:
        while found.ending is None:
            move = climb.next_move(found.rungs, place, end_s - time.monotonic())
            if isinstance(move, Ending):
                found.ending = move
            else:
                _try(measure, move, found, end_s, told)
    except KeyboardInterrupt:  # what was climbed so far is worth showing
        found.ending = Ending.INTERRUPTED
    return found


def _try(measure: Measure, move: Move, found: Climb, end_s: float, told: Console) -> None:
    best = found.best
    assert best is not None, "a climb that has no rung has ended"
    case = with_move(best.case, move)
    _say(told, f"Trying {move.axis}={move.value}: {move.reason}.")
    left_s = max(1.0, end_s - time.monotonic())
    from_s = time.monotonic()
    try:
        result, took_s = _timed(measure, case, left_s)
        rung = climb.rung_of(result, move, took_s)
    except bench.TookTooLong as late:
        rung = _failed(case, move, Status.TIMEOUT, late.sentence, time.monotonic() - from_s)
    except Stop as stop:
        rung = _failed(case, move, Status.CRASHED, stop.sentence, time.monotonic() - from_s)
    found.rungs.append(rung)
    _say(told, f"  {_outcome(rung, best)}")


def _failed(case: Case, move: Move, status: Status, reason: str, took_s: float) -> Rung:
    return Rung(case, status, reason, move=move, took_s=took_s)


def _timed(measure: Measure, case: Case, limit_s: float) -> tuple[Result, float]:
    from_s = time.monotonic()
    return measure(case, limit_s), time.monotonic() - from_s


def _outcome(rung: Rung, base: Rung) -> str:
    """One line: what came of a try."""
    if rung.status is not Status.OK:
        return f"{rung.status.value}: {rung.reason}"
    if not rung.right:
        return "It computes something else than fp32 eager training: not kept."
    gain = formats.times(climb.gain(rung, base))
    return f"{gain}, kept." if climb.helped(rung, base) else f"{gain}, not kept."


def _say_first(rung: Rung, told: Console) -> None:
    if rung.verdict is None:
        _say(told, f"{rung.case.key}: {rung.status.value}: {rung.reason}")
        return
    _say(told, f"{answer(rung.verdict)} ({rung.took_s:.0f} s) {rung.verdict.sentence}")


def answer(verdict: Verdict) -> str:
    """The answer to "input-bound or GPU-bound?", in two words."""
    if verdict.bottleneck is Bottleneck.UNKNOWN:
        return "Not known."
    return f"{verdict.bottleneck.value}-bound, {verdict.confidence} confidence."


def _say(told: Console, sentence: str) -> None:
    told.print(sentence, markup=False, highlight=False, soft_wrap=True)


def measurer(
    options: Sequence[str], protocol: Protocol, first: Case, folder: Path | None = None
) -> Measure:
    """Measure in child processes of this machine, as `throughline bench` does.

    The first case is not held against the reference: it is what people run, its answer is awaited,
    and a reference takes most of a minute. Nor is what only feeds it otherwise. All else is.

    Args:
        options: for each child.
        protocol: how to time.
        first: where the climb begins.
        folder: where compiled code is kept from one case to the next, so that a case compiles only
            what is new in it.
    """
    unchecked = protocol.model_copy(update={"parity": False})

    def measure(case: Case, limit_s: float) -> Result:
        settings = [f"{axis}={value}" for axis, value in case.axes.items()]
        preset = [f"--preset={case.preset}"] if case.preset != "auto" else []
        words = [case.workload, *settings, *preset, *options]
        timing = unchecked if _step(case) == _step(first) else protocol
        return bench.measure(words, 1, protocol=timing, limit_s=limit_s, within=folder)

    return measure


def _step(case: Case) -> dict[str, str]:
    """What decides the numbers that a step computes."""
    return {axis: value for axis, value in case.axes.items() if axis not in FEED}


def show(found: Climb, console: Console) -> None:
    """Print the ladder, where it ended, and what limits it there."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("step", min_width=20)
    for heading in ("throughput", "without the loader", "gain"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("limited by", no_wrap=True)
    base: Rung | None = None
    for rung, kept in zip(found.rungs, climb.kept(found.rungs), strict=True):
        table.add_row(*_cells(rung, base, found.unit), style="" if kept else "dim")
        base = rung if kept else base
    console.print(table)
    for line in _closing(found):
        _say(console, line)


def _cells(rung: Rung, base: Rung | None, unit: str) -> tuple[str | Text, ...]:
    name = f"{rung.move.axis}={rung.move.value}" if rung.move else rung.case.key
    if rung.status is not Status.OK:
        return name, Text(rung.status.value, style="red"), "", "", ""
    gain = formats.times(climb.gain(rung, base)) if base else ""
    limit = rung.verdict.bottleneck.value if rung.verdict else formats.DASH
    rates = formats.quantity(rung.full, unit), formats.quantity(rung.synth, unit)
    wrong = "" if rung.right else " wrong result"
    return name, *rates, gain + wrong, limit


_ENDINGS = {
    Ending.SUMMIT: f"Nothing else is left to try that may bring more than {climb.WORTH:.0%}.",
    Ending.BUDGET: "The budget is spent; a larger --budget may find more.",
    Ending.INTERRUPTED: "Interrupted; this is what was climbed so far.",
    Ending.FAILED: "The first case could not be measured.",
}


def _closing(found: Climb) -> list[str]:
    best, first = found.best, found.rungs[0]
    lines = [_ENDINGS[found.ending]] if found.ending else []
    if best is None:
        return [*lines, first.reason]
    faster = formats.times(best.full / first.full)
    without = formats.times(best.synth / first.synth)
    lines.append(f"Best: {best.case.key}: {faster}, without the loader {without}.")
    if best.verdict is not None:
        lines.append(f"There: {answer(best.verdict)} {best.verdict.sentence}")
    return lines


def exit_code(found: Climb) -> Exit:
    """Zero once there is a verdict."""
    if found.ending is Ending.INTERRUPTED:
        return Exit.INTERRUPTED
    return Exit.OK if found.best is not None else Exit.FAILED
