"""What a gate, a bisection and a finding took of the devices, at the prices of the operator."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from builders import analysed
from builders.bisected import BisectionHand, stepped
from builders.gate_hand import GateHand, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from service.jobs import prices, spent
from service.jobs.prices import PricesWrong
from service.models import Attempt, BisectionRow, ComparisonRow, ConfirmationRow, FindingSeries
from service.models.confirmations import CONFIRMATIONS
from service.schemas.costs import Price
from service.wording import device_hours

API = "/api/v1"
HOUR = timedelta(hours=1)
LONG_AGO = date(2020, 1, 1)
H200 = Price(gpu="H200", usd_per_hour=3.0, since=LONG_AGO, source="the contract of 2020")


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    return path


TABLE = """
[[price]]
gpu = "H200"
usd_per_hour = 4.0
since = 2026-01-01
source = "first contract"

[[price]]
gpu = "H200"
usd_per_hour = 3.0
since = 2026-06-01
source = "second contract"
"""


@pytest.mark.parametrize(
    ("day", "usd"),
    [("2025-12-31", None), ("2026-01-01", 4.0), ("2026-05-31", 4.0), ("2026-07-01", 3.0)],
)
def test_a_price_holds_from_its_date_on(tmp_path: Path, day: str, usd: float | None) -> None:
    table = prices.load(written(tmp_path, TABLE))
    found = prices.price_at(table, "H200", datetime.fromisoformat(f"{day}T12:00+00:00"))
    assert (found and found.usd_per_hour) == usd
    assert prices.price_at(table, "H100", datetime(2027, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    "text",
    [
        TABLE.replace("3.0", "-3.0"),
        TABLE.replace('source = "first contract"\n', ""),
        TABLE.replace("[[price]]", "[[prices]]"),
        "price = [",
    ],
)
def test_a_wrong_file_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(PricesWrong, match=r"prices\.toml"):
        prices.load(written(tmp_path, text))


@pytest.fixture
def gate(client: TestClient, hand: Hand) -> GateHand:
    hand.introduce(device="cuda", gpu="H200", gpus="2")
    client.app.state.prices = (H200,)  # type: ignore[attr-defined]
    return GateHand(client, hand)


def each_took_an_hour(client: TestClient) -> None:
    with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        ended = session.scalars(select(Attempt)).all()
        for one in ended:
            one.ended_at = one.granted_at + HOUR


def cost(client: TestClient, what: str) -> dict[str, Any]:
    answer = client.get(f"{API}/{what}/cost")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.both_databases
def test_a_gate_costs_the_hours_of_all_gpus_of_its_worker(
    client: TestClient, gate: GateHand
) -> None:
    asked = gate.start()
    other = gate.start(contender="newer")
    jobs = gate.measure(steady(), most=4)
    each_took_an_hour(client)
    both = [cost(client, f"comparisons/{one['id']}") for one in (asked, other)]
    assert sum(one["attempts"] for one in both) == jobs == 4
    assert sum(one["gpu_s"] for one in both) == 4 * 2 * 3_600
    assert sum(one["usd"] or 0.0 for one in both) == pytest.approx(4 * 2 * 3.0)
    (told,) = next(one for one in both if one["attempts"])["prices"]
    assert told["source"] == "the contract of 2020"
    text = client.get(f"/comparisons/{asked['id']}").text
    hours = 2 * both[0]["attempts"]
    assert f"{hours:.1f} GPU-hours in {both[0]['attempts']} attempts, {3 * hours:.2f} USD." in text


@pytest.mark.parametrize(("gpus", "each"), [("4", 4), ("many", 1), ("", 1)])
def test_a_label_that_is_no_number_counts_as_one_gpu(
    client: TestClient, gate: GateHand, gpus: str, each: int
) -> None:
    asked = gate.start()
    gate.measure(steady(), most=1)
    each_took_an_hour(client)
    gate.worker.introduce(device="cuda", gpu="H200", **({"gpus": gpus} if gpus else {}))
    assert cost(client, f"comparisons/{asked['id']}")["gpu_s"] == each * 3_600


def test_without_a_price_hours_are_shown_alone(client: TestClient, gate: GateHand) -> None:
    client.app.state.prices = ()  # type: ignore[attr-defined]
    asked = gate.start()
    gate.measure(steady(), most=2)
    each_took_an_hour(client)
    found = cost(client, f"comparisons/{asked['id']}")
    assert (found["usd"], found["unpriced_gpu_s"]) == (None, found["gpu_s"])
    text = client.get(f"/comparisons/{asked['id']}").text
    assert "4.0 GPU-hours in 2 attempts." in text
    assert "USD" not in text


@pytest.mark.both_databases(slow="postgresql")
def test_a_bisection_costs_its_probes_and_a_finding_what_it_led_to(
    client: TestClient, gate: GateHand
) -> None:
    finding = analysed.analyse(client.app.state.database).regression  # type: ignore[attr-defined]
    bisecting = BisectionHand(gate)
    told = bisecting.start(worker="w1")
    pairs = bisecting.measure(stepped(5))
    each_took_an_hour(client)
    found = cost(client, f"bisections/{told['id']}")
    assert (found["attempts"], found["usd"]) == (pairs, pytest.approx(pairs * 2 * 3.0))
    assert f"{pairs * 6:.2f} USD" in client.get(f"/bisections/{told['id']}").text

    asked = gate.start(contender="newer", worker="w1")
    again = gate.measure(steady(), most=4)
    each_took_an_hour(client)
    assert cost(client, f"findings/{finding}")["attempts"] == 0
    with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        session.execute(update(BisectionRow).values(finding_id=finding))
        change = select(FindingSeries.change_id).where(FindingSeries.finding_id == finding)
        suspicion = session.scalars(select(ConfirmationRow)).first()
        assert suspicion is not None
        suspicion.change_id = session.scalars(change.limit(1)).one()
        of_it = ComparisonRow.id == asked["id"]
        source = f"{CONFIRMATIONS}{suspicion.id}"
        session.execute(update(ComparisonRow).where(of_it).values(source=source))
    assert cost(client, f"findings/{finding}")["usd"] == pytest.approx((pairs + again) * 2 * 3.0)
    said = f"{(pairs + again) * 2:.1f} GPU-hours in {pairs + again} attempts"
    assert said in client.get(f"/findings/{finding}").text


def test_hours_without_a_price_are_told_beside_the_cost() -> None:
    used = spent.Spent(
        attempts=3, gpu_s=7_200, cpu_s=3_600, usd=3.0, unpriced_gpu_s=3_600, prices=(H200,)
    )
    assert device_hours.said(used) == (
        "2.0 GPU-hours and 1.0 hours of workers without a GPU in 3 attempts, 3.00 USD without 1.0 "
        "GPU-hours that have no price."
    )
    assert [*device_hours.prices(used)] == [
        "H200: 3.00 USD an hour since 2020-01-01, the contract of 2020."
    ]
