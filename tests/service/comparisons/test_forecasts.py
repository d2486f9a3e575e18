"""A running comparison forecasts its cases."""

import re
from typing import Any

import pytest
from builders import long_series as long
from builders.gate_hand import GateHand, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.database.session import Database
from service.models import ComparisonRow, Point

UNKNOWN = (
    "Noise between pairs is not known yet: no earlier gate and no processes of one night on such a "
    "device."
)


@pytest.fixture
def gate(client: TestClient, hand: Hand) -> GateHand:
    return GateHand(client, hand)


def only(told: dict[str, Any]) -> dict[str, Any]:
    [forecast] = told["forecast"]
    assert isinstance(forecast, dict)
    return forecast


def test_the_first_gate_says_that_nothing_is_known(gate: GateHand) -> None:
    told = only(gate.start())
    assert told["sentence"] == UNKNOWN
    assert (told["noise"], told["chance"], told["change"]) == (None, None, 0.01)


@pytest.mark.both_databases
def test_the_next_gate_knows_the_noise_of_the_one_before(gate: GateHand) -> None:
    before = gate.start(budget_s=7_200.0)
    gate.measure(steady(noise=0.002))
    case = gate.read(before["id"])["decision"]["cases"][0]
    told = gate.start(budget_s=7_200.0)
    assert only(told)["known_by"] == "gates"
    assert only(told)["noise"] == pytest.approx(case["metrics"][0]["noise"])
    assert re.fullmatch(
        r"Noise of 0\.\d+ % between pairs; about \d pairs \(.*\); sees a 1 % change in \d+ of 100 "
        r"gates\.",
        only(told)["sentence"],
    )
    assert only(gate.read(told["id"])) == only(told)
    assert only(told)["sentence"] in gate.client.get(told["page"]).text
    gate.measure(steady(noise=0.002))
    assert gate.read(told["id"])["forecast"] == [], "it is over"


def test_a_gate_that_knows_the_noise_needs_fewer_pairs_and_keeps_what_it_knew(
    gate: GateHand,
) -> None:
    pairs = []
    for _ in range(2):
        told = gate.start(budget_s=40_000.0)
        gate.measure(steady(noise=0.002))
        pairs.append(gate.read(told["id"])["decision"]["cases"][0]["pairs"])
    assert pairs[1] == 3 < pairs[0]
    database: Database = gate.client.app.state.database  # type: ignore[attr-defined]
    with database.reading() as session:
        rows = session.query(ComparisonRow.noise).order_by(ComparisonRow.id).all()
    assert rows[0][0] == [{"metric": "throughput", "as_measured": None, "at_one_clock": None}]
    assert rows[1][0][0]["as_measured"]["freedom"] == pairs[0] - 1


def test_a_limit_out_of_reach_is_told_at_once(gate: GateHand) -> None:
    gate.start(budget_s=40_000.0)
    gate.measure(steady(noise=0.02))
    told = gate.start(budget_s=40_000.0)
    assert "1 % is out of reach in 12 pairs (seen in" in only(told)["sentence"]
    assert only(told)["reachable"] > 0.015
    assert only(told)["sentence"] in gate.client.get(told["page"]).text
    short = gate.start(budget_s=60.0)
    assert only(short)["sentence"] == "The budget leaves too little time for 3 pairs."


def test_noise_of_another_device_or_way_of_measuring_counts_for_nothing(gate: GateHand) -> None:
    gate.worker.introduce(["old", "new"], device="cuda", gpu="H100")
    tiny = {"workload": "resnet50", "preset": "tiny"}  # as the hand measures
    gate.start(case=tiny)
    gate.measure(steady())
    for name, gpu in (("w2", "H100"), ("w3", "H200")):
        Hand(gate.client, name).introduce(["old", "new"], device="cuda", gpu=gpu)
    assert only(gate.start(case=tiny, worker="w2"))["known_by"] == "gates"
    assert only(gate.start(case=tiny, worker="w3"))["known_by"] is None
    assert only(gate.start(case=tiny, worker="w2", duet=True))["known_by"] is None
    assert only(gate.start(worker="w2", case={**tiny, "workload": "unet"}))["known_by"] is None


def test_pairs_take_as_long_as_they_took_on_such_a_device(gate: GateHand) -> None:
    gate.worker.introduce(["old", "new"], device="cuda", gpu="H100")
    tiny = {"workload": "resnet50", "preset": "tiny"}
    gate.start(case=tiny, duet=True, budget_s=7_200.0)
    gate.measure(steady(noise=0.002))
    told = only(gate.start(case=tiny, duet=True, budget_s=7_200.0))
    assert told["duration_s"] == pytest.approx(told["pairs"]), "these took under a second each"
    for name, gpu in (("w2", "H100"), ("w3", "H200")):
        Hand(gate.client, name).introduce(["old", "new"], device="cuda", gpu=gpu)
    short = {"case": tiny, "duet": True, "budget_s": 10.0}
    assert only(gate.start(worker="w2", **short))["most_pairs"] == 10
    assert only(gate.start(worker="w3", **short))["most_pairs"] == 0


def test_a_rule_about_the_preset_that_runs_is_the_one_that_is_forecast(gate: GateHand) -> None:
    gate.worker.introduce(["old", "new"], device="cuda", gpu="H100")
    loose = {"cases": "resnet50:full*", "limits": [{"metric": "throughput", "max_regression": 0.2}]}
    told = only(gate.start(policy={"rules": [loose]}))
    assert told["case_key"] == "resnet50:full"
    assert told["change"] == pytest.approx(0.2, abs=0.02)


def test_a_waiting_comparison_knows_nothing_yet(gate: GateHand) -> None:
    gate.start()
    gate.measure(steady())
    assert only(gate.start(requires={"pool": "new"}))["sentence"] == UNKNOWN


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("processes", "noise"), [(3, 0.01), (1, 0.00414)], ids=["of three", "of one"]
)
def test_without_an_earlier_gate_the_processes_of_the_history_tell_the_noise(
    client: TestClient, processes: int, noise: float
) -> None:
    """Nights of one process tell it too: their own deviation, which holds that of processes."""
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(long.noisy([100.0] * 20, deviation=0.007))))
        half = 2.4841  # Student's, of three processes that differ by 1 %
        ends = {"low": Point.value - half, "high": Point.value + half}
        kind = "replicates" if processes > 1 else "within_run"
        session.execute(update(Point).values(replicates=processes, interval=kind, **ends))
        long.analyse(session, long.SERIES, long.START)
        worker = session.query(Point.worker).first()
    assert worker is not None
    Hand(client, worker[0]).introduce(device="cuda")
    told = only(GateHand(client, Hand(client, worker[0])).start(budget_s=9_000.0))
    assert told["known_by"] == "series"
    assert told["noise"] == pytest.approx(noise * 2**0.5, rel=0.15)
