"""A pair that one job measures: two sides in one result, on both databases."""

from typing import Any

import pytest
from builders.gate_hand import GateHand, measured, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient

from benchmarks.contracts import Lease, Result, Status, Turn, Window
from benchmarks.diagnosis.paired import ONE_AFTER_THE_OTHER

pytestmark = pytest.mark.both_databases


@pytest.fixture
def gate(client: TestClient, hand: Hand) -> GateHand:
    return GateHand(client, hand)


def limited(*metrics: str) -> dict[str, Any]:
    return {"rules": [{"limits": [{"metric": name} for name in metrics]}]}


def decided(gate: GateHand, comparison_id: str) -> Any:
    return gate.read(comparison_id)["decision"]["cases"][0]


def test_a_pair_is_one_job_at_the_contender(gate: GateHand) -> None:
    gate.start(duet=True)
    lease = gate.worker.must_claim()
    assert lease.spec.revision == "new"
    assert lease.spec.duet is not None
    assert (lease.spec.duet.baseline, lease.spec.duet.baseline_first) == ("old", True)
    assert gate.worker.claim() is None, "the baseline has no job of its own"


def test_a_slowdown_is_found_in_pairs_of_one_job_each(gate: GateHand) -> None:
    told = gate.start(duet=True)
    jobs = gate.measure(steady(contender=0.97))
    after = gate.read(told["id"])
    assert after["outcome"] == "regression"
    case = decided(gate, told["id"])
    assert (case["verdict"], case["pairs"]) == ("worse", jobs)
    assert after["jobs"] == after["jobs_ended"] == jobs
    used = after["decision"]["used"]
    assert len(used) == 2 * jobs
    assert {(one["side"], one["pair"]) for one in used if one["job_id"] == used[0]["job_id"]} == {
        ("baseline", 0),
        ("contender", 0),
    }


def test_sides_take_turns_at_going_first(gate: GateHand) -> None:
    gate.start(duet=True)
    gate.measure(steady(noise=0.02))
    firsts = [lease.spec.duet.baseline_first for lease in gate.seen if lease.spec.duet]
    assert firsts[:4] == [True, False, True, False]


def test_equal_code_passes_and_the_checks_of_a_database_agree(gate: GateHand) -> None:
    told = gate.start(duet=True)
    gate.measure(steady())
    assert gate.read(told["id"])["outcome"] == "pass"


@pytest.mark.parametrize("metric", ["energy_per_item", "throughput_synth", "first_step_time"])
def test_a_limit_that_needs_the_device_alone_gets_one_process_after_the_other(
    gate: GateHand, metric: str
) -> None:
    gate.start(duet=True, policy=limited("throughput", metric))
    lease = gate.worker.must_claim()
    assert (lease.spec.revision, lease.spec.duet) == ("old", None)


def test_a_batch_that_is_searched_needs_the_memory_for_itself(gate: GateHand) -> None:
    gate.start(duet=True, case={"workload": "resnet50", "axes": {"batch": "auto"}})
    assert gate.worker.must_claim().spec.duet is None


@pytest.mark.parametrize("metric", ["throughput", "step_time", "peak_memory", "cycles"])
def test_the_other_limits_are_told_by_a_duet(gate: GateHand, metric: str) -> None:
    gate.start(duet=True, policy=limited(metric))
    assert gate.worker.must_claim().spec.duet is not None


def test_sides_that_do_not_fit_together_are_measured_alone_from_then_on(gate: GateHand) -> None:
    slow = steady(contender=0.97)

    def script(lease: Lease) -> Result:
        return slow(lease).model_copy(update={"flags": (ONE_AFTER_THE_OTHER,)})

    told = gate.start(duet=True)
    gate.measure(script)
    kinds = [lease.spec.duet is not None for lease in gate.seen]
    assert kinds[0]
    assert not any(kinds[1:])
    case = decided(gate, told["id"])
    assert case["verdict"] == "worse"
    assert "Measured one after the other: it could not be done in turn." in case["sentence"]


def test_a_contender_that_fails_in_both_ways_is_broken(gate: GateHand) -> None:
    good = steady()

    def script(lease: Lease) -> Result:
        if lease.spec.revision == "old":
            return good(lease)
        return measured(lease, 1.0, status=Status.OOM, reason="It does not fit.")

    told = gate.start(duet=True)
    gate.measure(script)
    assert decided(gate, told["id"])["verdict"] == "broken"


def test_parity_is_asked_for_once_and_a_trace_never(gate: GateHand) -> None:
    protocol = {"parity": True, "profile": True, "trace": True, "phases": True}
    gate.start(duet=True, protocol=protocol)
    gate.measure(steady())
    asked = [lease.spec.protocol for lease in gate.seen]
    assert [one.parity for one in asked[:2]] == [True, False]
    assert not any(one.trace or one.profile or one.phases for one in asked)


def in_turn(lease: Lease, step_s: float, clock_hz: float) -> Result:
    turns = tuple(
        Turn(
            window=Window(start_s=float(place), end_s=place + 0.5),
            steps=5,
            step_s=step_s * (1.19 if place == 3 else 1.0),
            sm_clock_hz=clock_hz,
        )
        for place in range(6)
    )
    startup = {"import": 2.5, "first_step": 4.0}
    made = measured(lease, 32 / step_s)
    return made.model_copy(update={"turns": turns, "startup": startup})


def test_the_page_of_a_pair_shows_both_sides_and_each_turn(gate: GateHand) -> None:
    def script(lease: Lease) -> Result:
        old = lease.spec.revision == "old"
        return in_turn(lease, 0.100 if old else 0.102, 1.5e9 if old else 1.4e9)

    told = gate.start(duet=True)
    gate.measure(script, most=1)
    used = gate.read(told["id"])["so_far"]["used"]
    page = gate.client.get(f"/runs/{used[0]['result_id']}").text
    for said in ("Beside the baseline", "in turn on one device", "set aside", "6.7", "first step"):
        assert said in page, said


def test_a_clock_that_surely_fell_is_the_codes_and_no_noise(gate: GateHand) -> None:
    """Two percent more time at a clock that is always seven percent lower stay two percent."""

    def script(lease: Lease) -> Result:
        old = lease.spec.revision == "old"
        return in_turn(lease, 0.100 if old else 0.102, 1.5e9 if old else 1.4e9)

    told = gate.start(duet=True)
    gate.measure(script)
    assert decided(gate, told["id"])["metrics"][0]["change"] == pytest.approx(-0.0196, abs=0.001)


def test_a_job_without_a_result_leaves_both_sides_missing(gate: GateHand) -> None:
    told = gate.start(duet=True)
    lease = gate.worker.must_claim()
    gate.worker.start(lease)
    reason = "Revision new is not on this worker."
    gate.worker.post(lease, measured(lease, 1.0, status=Status.INFRA_ERROR, reason=reason))
    sides = gate.read(told["id"])["so_far"]["used"]
    assert [(one["side"], one["compared"]) for one in sides[:2]] == [
        ("baseline", False),
        ("contender", False),
    ]


def test_the_page_of_a_side_whose_other_cannot_be_built_accuses_not_only_the_machine(
    gate: GateHand,
) -> None:
    told = gate.start(duet=True)
    lease = gate.worker.must_claim()
    gate.worker.start(lease)
    reason = "Not measured: the other revision of its pair, old, cannot be built."
    bad = measured(lease, 1.0, status=Status.UNBUILDABLE)
    result = measured(lease, 1.0, status=Status.INFRA_ERROR, reason=reason)
    gate.worker.post(lease, result.model_copy(update={"baseline": bad}))
    used = gate.read(told["id"])["so_far"]["used"]
    page = gate.client.get(f"/runs/{used[0]['result_id']}").text
    assert "the other side of its pair failed" in page
    assert reason in page
