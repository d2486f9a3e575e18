"""The pages of comparisons show what was decided, and escape what they show."""

from __future__ import annotations

import re

from builders.gate_hand import GateHand, measured, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient

from benchmarks.contracts import Lease, Result, Status
from service.models import ComparisonRow
from service.wording import formats


def gate_of(client: TestClient, hand: Hand) -> GateHand:
    return GateHand(client, hand)


def test_a_comparison_has_a_page_with_its_cases_and_attempts(
    client: TestClient, hand: Hand
) -> None:
    gate = gate_of(client, hand)
    assert "Nothing was compared yet" in client.get("/comparisons").text
    told = gate.start()
    running = client.get(told["page"]).text
    assert "data-live" in running
    assert "0 of 2 submitted" in running
    gate.measure(steady(0.95))
    decided = client.get(told["page"])
    text = decided.text.replace("\u00a0", " ")
    assert decided.status_code == 200
    assert "data-live" not in text
    assert "Regression" in text
    assert f"{formats.MINUS}5.0 %" in text
    for used in gate.read(told["id"])["decision"]["used"]:
        assert f"/jobs/{used['job_id']}" in text
        assert client.get(f"/runs/{used['result_id']}").status_code == 200
    assert f'href="{told["page"]}"' in client.get("/comparisons").text


def test_gates_stand_apart_from_what_the_service_measured_again(
    client: TestClient, hand: Hand
) -> None:
    gates = [gate_of(client, hand).start() for _ in range(3)]
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        for gate, kind in zip(gates, ("confirmation:", "bisection:"), strict=False):
            session.get_one(ComparisonRow, gate["id"]).source = kind + "0" * 32

    def listed(path: str) -> list[str]:
        return re.findall(r'href="/comparisons/(\w+)"', client.get(path).text)

    assert listed("/comparisons") == [gates[2]["id"]]
    assert set(listed("/comparisons?kind=again")) == {gates[0]["id"], gates[1]["id"]}
    assert '<a href="/comparisons">Gates</a>' in client.get("/").text
    shown = re.findall(r"<code>(\w+)</code></a>", client.get("/comparisons?kind=again").text)
    assert len(set(shown)) == 2


def test_a_time_that_grew_is_shown_with_a_plus(client: TestClient, hand: Hand) -> None:
    gate = gate_of(client, hand)
    told = gate.start(policy={"rules": [{"limits": [{"metric": "step_time"}]}]})
    gate.measure(steady(0.95))
    text = client.get(told["page"]).text.replace("\u00a0", " ")
    assert re.search(r"\+5\.\d %</span>", text)
    assert re.search(r"step_time \+5\.\d %", text)
    assert f"{formats.MINUS}5." not in text
    assert "signed as it was measured" in text


def test_a_strangers_words_are_escaped(client: TestClient, hand: Hand) -> None:
    def script(lease: Lease) -> Result:
        return measured(lease, 0.0, status=Status.OOM, reason="<script>alert(1)</script>")

    gate = gate_of(client, hand)
    told = gate.start()
    gate.measure(script)
    text = client.get(told["page"]).text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_a_comparison_that_does_not_exist_is_a_page_that_says_so(client: TestClient) -> None:
    answer = client.get("/comparisons/none")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
