"""Climbs from one case: measures, names the limit, tries moves against it, keeps those that
helped."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks import contracts
from benchmarks.diagnosis import hill_climb, suggestions
from benchmarks.diagnosis.conclude import place_of
from benchmarks.diagnosis.parity import FEED
from cli import exits
from cli.local.measure import LONGEST_S, DeviceHeld, LocalRunner
from cli.output import climb_report
from cli.output.console import Console
from service.wording import formats

BRIEF = contracts.Protocol(
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
"""Short windows: the first verdict comes within a minute, even if the first step takes half of
it."""
LEAST_S = 60.0
"""Seconds that even the first case gets, whatever the budget."""

Measure = Callable[[contracts.Case, float, hill_climb.Bar | None], contracts.Result]
"""Measures a case within so many seconds; a case below the bar is only timed."""


def run(
    measure: Measure, first: contracts.Case, budget_s: float, console: Console
) -> climb_report.Climb:
    """Climb from ``first`` until nothing is left or the budget is spent; progress goes to
    ``console``."""
    end_s = time.monotonic() + budget_s
    climb = climb_report.Climb(budget_s)
    result, took_s = _timed(measure, first, max(LEAST_S, budget_s), None)
    climb.rungs.append(hill_climb.rung_of(result, None, took_s))
    climb.unit = f"{result.item}/s"
    climb.hardware = formats.hardware(result.environment.comparability())
    _say_first(climb.rungs[0], console)
    _say_remarks(climb.rungs[0], console)
    climb.place = place_of(result)
    try:
        while climb.ending is None:
            move = hill_climb.next_move(climb.rungs, climb.place, end_s - time.monotonic())
            if isinstance(move, hill_climb.Ending):
                climb.ending = move
            else:
                _try(measure, move, climb, end_s, console)
    except KeyboardInterrupt:  # what was climbed so far is worth showing
        climb.ending = hill_climb.Ending.INTERRUPTED
    except DeviceHeld as held:
        console.say(f"  {held.sentence}")
        climb.ending = hill_climb.Ending.HELD
    return climb


def _try(
    measure: Measure,
    move: suggestions.Move,
    climb: climb_report.Climb,
    end_s: float,
    console: Console,
) -> None:
    best = climb.best
    assert best is not None, "a climb that has no rung has ended"
    case = suggestions.with_move(best.case, move)
    console.say(f"Trying {move.axis}={move.value}: {move.reason}.")
    from_s = time.monotonic()
    try:
        left_s = max(1.0, end_s - from_s)
        result, took_s = _timed(measure, case, left_s, hill_climb.bar(best))
        rung = hill_climb.rung_of(result, move, took_s)
    except DeviceHeld:  # neither this case nor any other can be measured now
        raise
    except exits.Stop as stop:
        took_s = time.monotonic() - from_s
        rung = hill_climb.Rung(
            case, contracts.Status.CRASHED, stop.sentence, move=move, took_s=took_s
        )
    climb.rungs.append(rung)
    console.say(f"  {_outcome(rung, best)}")
    _say_remarks(rung, console)


def _timed(
    measure: Measure, case: contracts.Case, limit_s: float, bar: hill_climb.Bar | None
) -> tuple[contracts.Result, float]:
    from_s = time.monotonic()
    result = measure(case, limit_s, bar)
    if result.status is contracts.Status.TIMEOUT:  # a worker's sentence names settings of a job
        reason = f"It was not done after {limit_s:.0f} s."
        result = result.model_copy(update={"reason": reason})
    return result, time.monotonic() - from_s


def _outcome(rung: hill_climb.Rung, base: hill_climb.Rung) -> str:
    """One line: what came of a try."""
    if rung.status is not contracts.Status.OK:
        return f"{rung.status.value}: {rung.reason}"
    if not rung.right:
        return "It computes something else than fp32 eager training: not kept."
    gain = formats.times(hill_climb.gain(rung, base))
    return f"{gain}, kept." if hill_climb.helped(rung, base) else f"{gain}, not kept."


def _say_first(rung: hill_climb.Rung, console: Console) -> None:
    if rung.verdict is None:
        console.say(f"{rung.case.key}: {rung.status.value}: {rung.reason}")
        return
    console.say(
        f"{climb_report.answer(rung.verdict)} ({rung.took_s:.0f} s) {rung.verdict.sentence}"
    )


def _say_remarks(rung: hill_climb.Rung, console: Console) -> None:
    for remark in climb_report.remarks(rung):
        console.say(f"  {remark}")


def measurer(runner: LocalRunner, protocol: contracts.Protocol, first: contracts.Case) -> Measure:
    """Measure in child processes of this machine, as `throughline bench` does.

    All cases are compared with fp32 eager training, except ``first`` and those that only feed it
    otherwise. The first is what people run already, and a reference would delay its verdict by most
    of a minute. One runner serves all cases, so that each compiles only its new parts.
    """
    unchecked = protocol.model_copy(update={"parity": False})

    def measure(
        case: contracts.Case, limit_s: float, bar: hill_climb.Bar | None
    ) -> contracts.Result:
        timing = unchecked if _step(case) == _step(first) else protocol
        return runner.measure(case, timing, limit_s=min(limit_s, LONGEST_S), beat=bar)

    return measure


def _step(case: contracts.Case) -> dict[str, str]:
    return {axis: value for axis, value in case.axes.items() if axis not in FEED}


def exit_code(climb: climb_report.Climb) -> exits.Exit:
    """Zero once there is a verdict and the device stayed usable."""
    if climb.ending is hill_climb.Ending.INTERRUPTED:
        return exits.Exit.INTERRUPTED
    if climb.rungs[0].status is contracts.Status.TIMEOUT:
        return exits.Exit.TIMEOUT
    measured = climb.best is not None and climb.ending is not hill_climb.Ending.HELD
    return exits.Exit.OK if measured else exits.Exit.FAILED
