"""Both sides of a pair in one Result, and one side's turns."""

from __future__ import annotations

import itertools
import json
import math
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import pytest
from builders import loaded

from benchmarks.contracts import (
    Case,
    DuetSide,
    Environment,
    ProcessSpec,
    Protocol,
    Result,
    Status,
    Turn,
    Window,
)
from benchmarks.diagnosis.paired import paired, samples
from benchmarks.measure.in_turn import LEAD_STEPS, Baton, OtherSideGone, WindowRule
from benchmarks.measure.loop import StepTimes


def turn(step_s: float, clock_hz: float | None = None) -> Turn:
    return Turn(window=Window(start_s=0.0, end_s=1.0), steps=5, step_s=step_s, sm_clock_hz=clock_hz)


def side(*step_s: float, **more: object) -> Result:
    turns = [turn(one) for one in step_s]
    fields: dict[str, object] = {
        "case": Case(workload="unet", preset="tiny"),
        "status": Status.OK,
        "measured_at": datetime(2026, 11, 20, tzinfo=UTC),
        "protocol": Protocol(),
        "item": "img",
        "batch_items": 8,
        "environment": Environment(facts={}),
        "samples": tuple(samples(turns, "img", 8)),
        "turns": turns,
        **more,
    }
    return Result.model_validate(fields)


def value(result: Result, metric: str) -> float:
    return next(one.values[0] for one in result.samples if one.metric == metric)


def test_a_side_tells_its_rate_and_the_time_of_a_step() -> None:
    told = {one.metric: one for one in samples([turn(0.1), turn(0.1)], "img", 8)}
    assert told["throughput"].values == pytest.approx([80.0])
    assert told["throughput"].unit == "img/s"
    assert told["step_time"].values == pytest.approx([0.1])
    assert "sm_clock" not in told


def test_the_clock_is_told_where_every_turn_has_one() -> None:
    told = {one.metric: one for one in samples([turn(0.1, 1.6e9), turn(0.1, 1.6e9)], "img", 8)}
    assert told["sm_clock"].values == pytest.approx([1.6e9])
    assert len(list(samples([turn(0.1, 1.6e9), turn(0.1)], "img", 8))) == 2


def test_one_wild_turn_moves_nothing() -> None:
    before = side(*[0.100] * 6)
    after = side(0.101, 0.101, 0.120, 0.101, 0.101, 0.101)
    both = paired(before, after)
    assert both.baseline is not None
    assert value(both, "step_time") / value(both.baseline, "step_time") == pytest.approx(1.01)
    assert len(both.turns) == len(both.baseline.turns) == 6, "nothing is dropped in silence"


def test_a_drift_of_the_machine_cancels() -> None:
    drift = [0.1 * math.exp(0.02 * place) for place in range(6)]
    both = paired(side(*drift), side(*[1.005 * one for one in drift]))
    assert both.baseline is not None
    ratio = value(both, "throughput") / value(both.baseline, "throughput")
    assert ratio == pytest.approx(1 / 1.005)


def test_sides_with_different_numbers_of_turns_are_no_pair() -> None:
    with pytest.raises(ValueError, match=r"zip\(\)"):
        paired(side(0.1, 0.1), side(0.1))


def test_sides_measured_by_themselves_stay_as_they_are() -> None:
    alone = side(0.1).model_copy(update={"turns": ()})
    both = paired(alone, alone)
    assert both.baseline == alone
    assert both.samples == alone.samples


def test_a_baseline_has_no_baseline() -> None:
    both = paired(side(0.1), side(0.1))
    with pytest.raises(ValueError, match="two sides"):
        Result.model_validate(side(0.1).model_dump() | {"baseline": both.model_dump()})


@pytest.fixture
def batons() -> Iterator[tuple[Baton, Baton]]:
    ends = socket.socketpair()
    sides = [
        DuetSide(socket_fd=end.detach(), first=place == 0, turns=4, turn_s=0.1)
        for place, end in enumerate(ends)
    ]
    with Baton(sides[0]) as one, Baton(sides[1]) as other:
        yield one, other


def test_sides_alternate_and_are_never_at_it_together(batons: tuple[Baton, Baton]) -> None:
    order: list[str] = []

    def play(name: str, baton: Baton) -> None:
        baton.meet()
        with baton.alone():
            order.append(f"{name} first")
        baton.meet()
        order.extend(f"{name}{number}" for number in baton.turns(4))
        with baton.alone():
            order.append(name)

    threads = [
        threading.Thread(target=play, args=(name, baton))
        for name, baton in zip("ab", batons, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert order[:2] == ["a first", "b first"]
    assert order[2:] == ["a0", "b0", "b1", "a1", "a2", "b2", "b3", "a3", "a", "b"]


def test_a_side_notices_that_the_other_one_is_gone(batons: tuple[Baton, Baton]) -> None:
    one, other = batons
    with other:
        pass
    with pytest.raises(OtherSideGone):
        one.meet()


def test_a_side_that_works_in_the_turns_of_the_other_is_noticed(
    batons: tuple[Baton, Baton], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a thread that the measured code left running, which slows both sides alike."""
    first, second = batons
    used_s = itertools.count(step=60)  # a minute of the processor from one look to the next
    monkeypatch.setattr("benchmarks.measure.in_turn.time.process_time", lambda: float(next(used_s)))
    for _ in first.turns(1):
        pass
    next(second.turns(1))
    assert second.busy_while_waiting


def test_a_side_that_waits_is_not_busy(batons: tuple[Baton, Baton]) -> None:
    first, second = batons

    def one_turn() -> None:
        for _ in first.turns(1):
            time.sleep(0.4)

    waiting = threading.Thread(target=one_turn)
    waiting.start()
    next(second.turns(1))
    assert not second.busy_while_waiting
    waiting.join()


def test_what_needs_the_device_alone_is_done_though_the_other_side_is_gone(
    batons: tuple[Baton, Baton],
) -> None:
    one, other = batons
    with one:
        pass
    with other.alone():
        done = True
    assert done


def steps_of_window(rule: WindowRule, step_s: Iterable[float], busy_s: float = math.inf) -> int:
    """Steps that run in a window: those finished when ``rule`` ends it, and those queued then.

    What a step takes beyond ``busy_s`` it waits for the loader.
    """
    times, run_ahead = StepTimes(), rule.begin()
    for one in step_s:
        times.step.append(one)
        times.stall.append(max(0.0, one - busy_s))
        if rule(times):
            return len(times.step) + run_ahead
    raise AssertionError("the window does not end")


@pytest.mark.parametrize(
    ("step_s", "counted", "lead"),
    [(0.6, 1, 1), (0.4, 2, 1), (0.25, 2, 1), (0.19, 3, 2), (0.06, 8, 2), (0.01, 45, 2)],
)
def test_a_window_counts_as_many_steps_as_its_length_takes(
    step_s: float, counted: int, lead: int
) -> None:
    """After the first one, which knows no step's length yet, long steps need a shorter start."""
    rule = WindowRule(0.445)
    assert steps_of_window(rule, itertools.repeat(step_s)) == LEAD_STEPS + counted
    for _ in range(3):
        assert steps_of_window(rule, itertools.repeat(step_s)) == lead + counted
        assert rule.begin() == lead


def test_a_slow_step_ends_no_window_early() -> None:
    """As when a batch comes late: the steps that are queued behind it may be as fast as ever."""
    rule = WindowRule(0.445)
    late = [3.0, *[0.06] * 20]
    assert steps_of_window(rule, late) == LEAD_STEPS + 1, "nothing is known of the others yet"
    rule.learn(*late)
    assert steps_of_window(rule, late) == LEAD_STEPS + 8


@pytest.mark.parametrize("begin", range(4))
def test_a_window_that_waits_for_the_loader_counts_whole_rounds(begin: int) -> None:
    """Four processes deliver four batches together, wherever in their round a window begins."""
    arrivals = list(itertools.islice(itertools.cycle([0.33, 0.03, 0.03, 0.03]), begin, 40))
    ran = steps_of_window(WindowRule(0.445, loaders=4), arrivals, busy_s=0.03)
    assert ran == LEAD_STEPS + 8, "four would be over too soon"
    assert fmean(arrivals[LEAD_STEPS:ran]) == pytest.approx(0.105)


def test_a_gang_knows_beforehand_how_many_steps_fill_a_window() -> None:
    """Whole rounds of the loader, once a window waited for it."""
    rule = WindowRule(0.445, loaders=4)
    assert rule.steps() == 1, "nothing is known of them yet"
    steps_of_window(rule, itertools.repeat(0.06), busy_s=0.03)
    assert not rule.was_starved
    rule.begin()
    assert (rule.was_starved, rule.steps()) == (True, 8)
    rule.learn(0.05)
    assert rule.steps() == 12
    rule.begin()
    assert (rule.was_starved, rule.steps()) == (False, 9)


def test_a_window_that_waits_for_no_loader_ends_with_any_step() -> None:
    rule = WindowRule(0.445, loaders=4)
    assert steps_of_window(rule, itertools.repeat(0.09), busy_s=0.087) == LEAD_STEPS + 5


STARTED = {True: {"started_ahead"}, False: {"interpreter", "import"}}
"""What a process tells of its start, by whether it was started ahead of its job."""


def test_two_processes_measure_in_turn() -> None:
    """Their windows do not overlap, both tell as many, and how they were started."""
    ends = socket.socketpair()
    specs = [
        ProcessSpec(
            case=Case(workload="nanogpt", preset="tiny", axes={"batch": "1"}),
            protocol=Protocol(warmup_min_steps=2, warmup_min_s=0.1),
            device="cpu",
            duet=DuetSide(socket_fd=end.fileno(), first=place == 0, turns=4, turn_s=0.05),
        )
        for place, end in enumerate(ends)
    ]
    with ThreadPoolExecutor() as both:
        outs = list(both.map(_measured, specs, STARTED))
    for end in ends:
        end.close()
    one, other = (Result.model_validate_json(out.stdout.splitlines()[-1]) for out in outs)
    assert (one.status, other.status) == (Status.OK, Status.OK), outs
    assert len(one.turns) == len(other.turns) == 4
    spans = sorted((turn.window.start_s, turn.window.end_s) for turn in (*one.turns, *other.turns))
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    ours = {"device", "model", "settings", "trainer"}
    ours |= {"first_batch", "first_step", "warmup", "reset"}
    assert [set(side.startup) - ours for side in (one, other)] == list(STARTED.values())
    assert set(one.startup) & set(other.startup) == ours
    assert {sample.metric for sample in one.samples} == {"throughput", "step_time", "peak_memory"}


def _measured(spec: ProcessSpec, ahead: bool) -> subprocess.CompletedProcess[str]:
    assert spec.duet is not None
    began = json.dumps({"at_s": time.monotonic(), "environment": {}})
    waited = f"{began}\n" if ahead else ""
    return loaded.run(
        *("benchmarks", "-", *(("--await", "2") if ahead else ())),
        environment=os.environ,
        folder=Path.cwd(),
        given=f"{waited}{spec.model_dump_json(exclude_none=True)}".encode(),
        passed=(spec.duet.socket_fd,),
    )
