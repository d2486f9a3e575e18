"""What simulated workers measure agrees with what happened to them."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean

import pytest

from benchmarks.contracts import Case, JobSpec, Result, Status
from cli.demo.simulated import GPUS, Moves
from trials.nights.cells import cases_of
from trials.nights.events import EVERYTHING, Draw, Event, Factor, drawn
from trials.nights.fleet import NODES, Fleet

CASE = Case(workload="resnet50", preset="full", axes={"workers": "8"})
STEP = Event("slower", 20, Factor(workload="resnet50"), 0.05)
AT = datetime(2026, 3, 1, tzinfo=UTC)


def measured(event: Event, night: int, revision: int | None = None, node: str = "node-a") -> Result:
    """What a node sends of the case; by default of the revision of that night."""
    fleet = Fleet(1, [event], night=night)
    spec = JobSpec(case=CASE, revision=f"r{night if revision is None else revision:02d}")
    return fleet.measure(spec, node, AT)


def change(event: Event, metric: str, node: str = "node-a") -> float:
    """By which share a metric differs after an event from before."""
    before, after = (_mean(measured(event, night, node=node), metric) for night in (19, 20))
    return after / before - 1.0


def _mean(result: Result, metric: str) -> float:
    return fmean(next(s.values for s in result.samples if s.metric == metric))


def test_slower_code_takes_more_cycles_and_energy_at_the_same_clock() -> None:
    assert change(STEP, "throughput") == pytest.approx(-0.045, abs=0.01)
    assert change(STEP, "cycles_per_step") == pytest.approx(0.05, abs=0.01)
    assert change(STEP, "energy_per_item") == pytest.approx(0.047, abs=0.015)
    assert change(STEP, "sm_clock") == pytest.approx(0.0, abs=0.005)


def test_a_bad_node_has_a_lower_clock_and_takes_the_same_cycles() -> None:
    event = Event("bad node", 20, Factor(worker="node-a"), 0.05, Moves.CLOCK, by_night=True)
    assert change(event, "sm_clock") == pytest.approx(-0.048, abs=0.005)
    assert change(event, "throughput") == pytest.approx(-0.045, abs=0.01)
    assert change(event, "cycles_per_step") == pytest.approx(0.0, abs=0.01)
    assert change(event, "throughput", node="node-b") == pytest.approx(0.0, abs=0.01)


def test_a_slower_input_leaves_alone_what_runs_without_it() -> None:
    event = replace(STEP, moves=Moves.INPUT)
    assert change(event, "throughput") == pytest.approx(-0.045, abs=0.01)
    assert change(event, "throughput_synth") == pytest.approx(0.0, abs=0.01)


def test_code_is_slower_by_its_revision_and_a_driver_by_its_night() -> None:
    by_code = _mean(measured(STEP, 25, revision=19), "throughput")
    assert by_code == pytest.approx(_mean(measured(STEP, 19), "throughput"), rel=0.01)
    facts = {"hw.gpu.driver": "580"}
    driver = Event("driver", 20, EVERYTHING, 0.05, facts=facts, by_night=True)
    again = measured(driver, 25, revision=19)
    assert again.environment.facts["hw.gpu.driver"] == "580"
    assert _mean(again, "throughput") < 0.97 * _mean(measured(driver, 19), "throughput")
    others = [measured(driver, 20, node=node).environment.facts for node in NODES]
    assert {facts["hw.gpu.driver"] for facts in others} == {"580"}


def test_a_case_that_fails_has_a_status_and_no_numbers() -> None:
    event = replace(STEP, moves=Moves.OUTCOME, status=Status.OOM, until=22)
    assert measured(event, 20).status is Status.OOM
    assert not measured(event, 20).samples
    assert measured(event, 22).status is Status.OK


def test_a_drift_grows_night_by_night() -> None:
    event = replace(STEP, ramp=10, size=0.1)
    assert [event.grown(code, code) for code in (19, 20, 24, 29, 40)] == [0, 0.1, 0.5, 1, 1]


def test_the_same_history_measures_the_same_and_another_does_not() -> None:
    spec = JobSpec(case=CASE, revision="r03")
    first, second, other = (Fleet(seed, []).measure(spec, "node-a", AT) for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_every_kind_of_event_is_drawn_once_in_sixty_nights_of_the_suite() -> None:
    cases = cases_of(43)
    events = drawn(Draw(random.Random(3), cases, NODES), 8, 60, every=3)
    assert len({event.kind for event in events}) >= 18
    assert all(any(event.factor.covers(case) for case in cases) for event in events)
    assert {event.factor.gpu for event in events} <= {"", *GPUS}
