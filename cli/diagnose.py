"""Climbs from one case: measures, names the limit, tries what may lift it, keeps what helped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.contracts import Case, Protocol, Result, Status
from benchmarks.diagnosis import hill_climb
from benchmarks.diagnosis.conclude import place_of
from benchmarks.diagnosis.hill_climb import Bar, Ending, Rung
from benchmarks.diagnosis.parity import FEED
from benchmarks.diagnosis.suggestions import Move, with_move
from cli import bench
from cli.diagnose_report import Climb, answer, remarks, say
from cli.exits import Exit, Stop
from cli.local.local_device import Rig
from cli.output.console import Console
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

Measure = Callable[[Case, float, Bar | None], Result]
"""Measures a case within so many seconds; one that beats no bar only as far as its rates."""


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
    result, took_s = _timed(measure, first, max(LEAST_S, budget_s), None)
    found.rungs.append(hill_climb.rung_of(result, None, took_s))
    found.unit = f"{result.item}/s"
    found.hardware = formats.hardware(result.environment.comparability())
    _say_first(found.rungs[0], told)
    _say_remarks(found.rungs[0], told)
    found.place = place_of(result)
    try:
        while found.ending is None:
            move = hill_climb.next_move(found.rungs, found.place, end_s - time.monotonic())
            if isinstance(move, Ending):
                found.ending = move
            else:
                _try(measure, move, found, end_s, told)
    except KeyboardInterrupt:  # what was climbed so far is worth showing
        found.ending = Ending.INTERRUPTED
    except bench.DeviceHeld as held:
        say(told, f"  {held.sentence}")
        found.ending = Ending.HELD
    return found


def _try(measure: Measure, move: Move, found: Climb, end_s: float, told: Console) -> None:
    best = found.best
    assert best is not None, "a climb that has no rung has ended"
    case = with_move(best.case, move)
    say(told, f"Trying {move.axis}={move.value}: {move.reason}.")
    left_s = max(1.0, end_s - time.monotonic())
    from_s = time.monotonic()
    try:
        result, took_s = _timed(measure, case, left_s, hill_climb.bar(best))
        rung = hill_climb.rung_of(result, move, took_s)
    except bench.TookTooLong as late:
        rung = _failed(case, move, Status.TIMEOUT, late.sentence, time.monotonic() - from_s)
    except bench.DeviceHeld:  # neither this case nor any other can be measured now
        raise
    except Stop as stop:
        rung = _failed(case, move, Status.CRASHED, stop.sentence, time.monotonic() - from_s)
    found.rungs.append(rung)
    say(told, f"  {_outcome(rung, best)}")
    _say_remarks(rung, told)


def _failed(case: Case, move: Move, status: Status, reason: str, took_s: float) -> Rung:
    return Rung(case, status, reason, move=move, took_s=took_s)


def _timed(measure: Measure, case: Case, limit_s: float, bar: Bar | None) -> tuple[Result, float]:
    from_s = time.monotonic()
    return measure(case, limit_s, bar), time.monotonic() - from_s


def _outcome(rung: Rung, base: Rung) -> str:
    """One line: what came of a try."""
    if rung.status is not Status.OK:
        return f"{rung.status.value}: {rung.reason}"
    if not rung.right:
        return "It computes something else than fp32 eager training: not kept."
    gain = formats.times(hill_climb.gain(rung, base))
    return f"{gain}, kept." if hill_climb.helped(rung, base) else f"{gain}, not kept."


def _say_first(rung: Rung, told: Console) -> None:
    if rung.verdict is None:
        say(told, f"{rung.case.key}: {rung.status.value}: {rung.reason}")
        return
    say(told, f"{answer(rung.verdict)} ({rung.took_s:.0f} s) {rung.verdict.sentence}")


def _say_remarks(rung: Rung, told: Console) -> None:
    for remark in remarks(rung):
        say(told, f"  {remark}")


def measurer(rig: Rig, options: Sequence[str], protocol: Protocol, first: Case) -> Measure:
    """Measure in child processes of this machine, as `throughline bench` does.

    The first case is not held against the reference: it is what people run, its answer is awaited,
    and a reference takes most of a minute. Nor is what only feeds it otherwise. All else is.

    Args:
        rig: for all of it, so that a case compiles only what is new in it.
        options: for each child.
        protocol: how to time.
        first: where the climb begins.
    """
    unchecked = protocol.model_copy(update={"parity": False})

    def measure(case: Case, limit_s: float, bar: Bar | None) -> Result:
        settings = [f"{axis}={value}" for axis, value in case.axes.items()]
        preset = [f"--preset={case.preset}"] if case.preset != "auto" else []
        beat = [f"--beat={bar.full!r},{bar.synth!r}"] if bar else []
        words = [case.workload, *settings, *preset, *options, *beat]
        timing = unchecked if _step(case) == _step(first) else protocol
        return bench.measure(rig, words, protocol=timing, limit_s=limit_s)

    return measure


def _step(case: Case) -> dict[str, str]:
    """Return the axes that decide the numbers that a step computes."""
    return {axis: value for axis, value in case.axes.items() if axis not in FEED}


def exit_code(found: Climb) -> Exit:
    """Zero once there is a verdict, and nothing was in the way of a further one."""
    if found.ending is Ending.INTERRUPTED:
        return Exit.INTERRUPTED
    told = found.best is not None and found.ending is not Ending.HELD
    return Exit.OK if told else Exit.FAILED
