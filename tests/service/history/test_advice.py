"""What a result suggests rests on what was measured beside it, once it is read."""

import math
import zlib
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from builders import long_series
from builders.service_hand import FACTS, Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import Engine, event

from benchmarks.contracts import Bottleneck, Direction, Result, Sample, Suggestion, Verdict
from service.database.session import Database
from service.history import neighbours, queries

WORKERS = {"workers": "4"}
BF16 = WORKERS | {"precision": "bf16"}
FUSED = BF16 | {"optimizer": "fused"}
KEY = "resnet50:tiny workers=4"
FOUND_ALONE = Suggestion(axis="optimizer", value="fused", sentence="As its evidence said then.")


def verdict_of(bottleneck: Bottleneck) -> Verdict:
    return Verdict(
        bottleneck=bottleneck,
        confidence="high",
        sentence="It is so.",
        evidence={"input_stall": 0.0, "stall": 0.3},
        suggestions=(FOUND_ALONE,),
    )


class Night:
    """Measures cases one by one, each with a rate with the loader and one without."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand

    def measure(
        self,
        axes: dict[str, str],
        full: float,
        synth: float | None = None,
        *,
        limit: Bottleneck = Bottleneck.DEVICE,
        revision: str = "r1",
        facts: dict[str, str] = FACTS,
    ) -> str:
        """Return the result's id."""
        body = {"case": {"workload": "resnet50", "axes": axes}, "revision": revision}
        assert self.hand.client.post("/api/v1/jobs", json=body).status_code == 201
        return self.answer(full, synth, limit=limit, facts=facts)

    def answer(
        self,
        full: float,
        synth: float | None = None,
        *,
        limit: Bottleneck = Bottleneck.DEVICE,
        facts: dict[str, str] = FACTS,
    ) -> str:
        """Measure the next job that is queued."""
        rates = {"throughput": full, "throughput_synth": full if synth is None else synth}
        samples = tuple(
            Sample(metric=name, unit="img/s", direction=Direction.HIGHER, values=(rate,))
            for name, rate in rates.items()
        )
        lease = self.hand.must_claim()
        result = result_of(lease, samples=samples, verdict=verdict_of(limit), facts=facts)
        posted = self.hand.post(lease, result)
        assert posted.status_code == 201, posted.text
        return str(posted.json()["id"])

    def told(self, result_id: str) -> dict[str, dict[str, Any]]:
        """What the API suggests at a result, by axis."""
        answer = self.hand.client.get(f"/api/v1/results/{result_id}")
        assert answer.status_code == 200, answer.text
        suggestions = answer.json()["result"]["verdict"]["suggestions"]
        assert len(suggestions) <= 3
        return {one["axis"]: one for one in suggestions}


@pytest.fixture
def night(hand: Hand) -> Night:
    return Night(hand)


def test_a_result_suggests_what_was_measured_beside_it_even_afterwards(night: Night) -> None:
    plain = night.measure(WORKERS, 100.0)
    assert night.told(plain)["precision"]["speedup"] is None, "nothing was measured beside it yet"
    night.measure(BF16, 231.0)
    told = night.told(plain)
    assert next(iter(told)) == "precision", "what was measured comes first"
    assert told["precision"]["speedup"] == pytest.approx(2.31)
    assert told["precision"]["sentence"] == f"precision=bf16 measured +131% on {KEY}."
    assert told["layout"]["speedup"] is None, "it was not measured, and rests on the evidence"


def test_what_was_measured_to_be_no_faster_is_not_suggested(night: Night) -> None:
    plain = night.measure(WORKERS, 100.0)
    night.measure(BF16, 90.0)
    assert night.told(plain).get("precision", {}).get("value") != "bf16"


def test_the_rate_that_counts_is_the_one_that_the_limit_is_about(night: Night) -> None:
    starved = night.measure(WORKERS, 100.0, 500.0, limit=Bottleneck.INPUT)
    busy = night.measure(FUSED, 400.0, 500.0)
    night.measure(WORKERS | {"decode": "cache"}, 300.0, 500.0)
    night.measure(FUSED | {"layout": "channels_last"}, 400.0, 600.0)
    assert night.told(starved)["decode"]["speedup"] == pytest.approx(3.0)
    assert night.told(busy)["layout"]["speedup"] == pytest.approx(1.2)


@pytest.mark.parametrize(
    "elsewhere", [{"revision": "r2"}, {"facts": FACTS | {"hw.cpu.model": "Another CPU"}}]
)
def test_another_revision_or_machine_is_no_neighbour(
    night: Night, elsewhere: dict[str, Any]
) -> None:
    plain = night.measure(WORKERS, 100.0)
    night.measure(BF16, 231.0, **elsewhere)
    assert all(one["speedup"] is None for one in night.told(plain).values())


def test_what_was_measured_elsewhere_or_far_away_crowds_no_neighbour_out(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = FACTS | {"hw.cpu.model": "Another CPU"}
    plain = night.measure(WORKERS, 100.0)
    night.measure(BF16, 231.0)
    for name in ("cache", "cpu-uint8"):
        far = FUSED | {"layout": "channels_last", "accumulation": "2", "decode": name}
        for axes, facts in ((WORKERS | {"decode": name}, others), (far, FACTS)):
            night.measure(axes, 90.0, facts=facts)
    monkeypatch.setattr("service.history.neighbours._MOST", 4)
    assert night.told(plain)["precision"]["speedup"] == pytest.approx(2.31)


def test_of_a_revision_that_is_measured_each_night_only_what_is_wanted_is_read(
    sqlite_url: str,
) -> None:
    database = Database(sqlite_url)
    asked: list[tuple[str, Any]] = []
    with database.writing() as session:
        long_series.prepare(session)
        long_series.add(session, {1: 100.0})
        long_series.add(session, {1: 231.0}, series_id=long_series.OTHER, place=1)
    stored = zlib.decompress(long_series.document_of(1.0, long_series.START, long_series.SERIES))
    with database.reading() as session:
        connection = session.connection()
        event.listen(connection, "before_cursor_execute", lambda *told: asked.append(told[2:4]))
        around = [Result.model_validate_json(stored)]
        found = neighbours.measured_at(session, "", long_series.revision_of(1), around)
        plans = [
            str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all())
            for statement, values in list(asked)
        ]
    assert sorted(beside.neighbour.rate for beside in found) == [100.0, 231.0]
    (plan,) = [plan for plan in plans if "points" in plan]
    assert "series_id=?" in plan


def test_an_excluded_result_is_no_neighbour(night: Night, client: TestClient) -> None:
    plain, fast = night.measure(WORKERS, 100.0), night.measure(BF16, 231.0)
    body = {"reason": "a hot day", "actor": "ann"}
    assert client.put(f"/api/v1/results/{fast}/exclusion", json=body).status_code == 200
    assert all(one["speedup"] is None for one in night.told(plain).values())


def test_what_is_stored_stays_as_it_came(night: Night, client: TestClient) -> None:
    plain = night.measure(WORKERS, 100.0)
    night.measure(BF16, 231.0)
    assert night.told(plain)["precision"]["speedup"]
    with client.app.state.database.reading() as session:  # type: ignore[attr-defined]
        stored = queries.load_result(session, plain).result
    assert stored.verdict == verdict_of(Bottleneck.DEVICE)


def test_the_dashboard_says_the_same(night: Night, client: TestClient) -> None:
    plain = night.measure(WORKERS, 100.0)
    night.measure(BF16, 231.0)
    page = unescape(client.get(f"/runs/{plain}").text)
    told = night.told(plain)
    assert told
    assert all(one["sentence"] in page for one in told.values())


def test_a_factor_beyond_belief_breaks_nothing_and_is_not_told(night: Night) -> None:
    plain = night.measure(WORKERS, 5e-324)
    night.measure(BF16, 1e100)
    assert "precision" not in {
        axis for axis, one in night.told(plain).items() if one["speedup"] is not None
    }


@pytest.mark.parametrize(
    "odd", [{"hw.cpu.usable": "²"}, {"hw.cpu.usable": "9" * 500}, {"hw.gpu.capability": "².0"}]
)
def test_a_strange_fact_breaks_no_answer(
    night: Night, client: TestClient, odd: dict[str, str]
) -> None:
    submission = submitted(client, WORKERS)
    result = night.answer(100.0, facts=FACTS | odd)
    for address in (f"/results/{result}", f"/submissions/{submission}/report"):
        assert client.get(f"/api/v1{address}").status_code == 200
    assert client.get(f"/runs/{result}").status_code == 200


def submitted(client: TestClient, *axes: dict[str, str], **more: str) -> str:
    cases = [{"workload": "resnet50", "axes": each} for each in axes]
    body = {"cases": cases, "revision": "r1", "protocol": {"replicates": 1}, **more}
    return str(client.post("/api/v1/submissions", json=body).json()["id"])


def test_a_report_advises_at_the_fastest_case(night: Night, client: TestClient) -> None:
    night.measure(FUSED, 300.0)
    submission = submitted(client, WORKERS, BF16)
    night.answer(100.0)
    night.answer(240.0)
    address = f"/api/v1/submissions/{submission}/report"
    (advice,) = client.get(address).json()["advice"]
    assert advice["case"]["axes"] == BF16
    first = advice["suggestions"][0]
    assert (first["axis"], first["value"]) == ("optimizer", "fused")
    assert first["speedup"] == pytest.approx(1.25)
    markdown = client.get(address, params={"format": "markdown"}).text
    assert "Worth a try at `resnet50:tiny precision=bf16 workers=4`:" in markdown
    assert r"optimizer=fused measured \+25% on resnet50:tiny precision=bf16 workers=4" in markdown


CHANNELS = BF16 | {"layout": "channels_last"}
FOR_A_COMPARISON = {"purpose": "comparison"}


def advice_at(client: TestClient, submission: str) -> dict[str, dict[str, Any]]:
    """What a report suggests at its only fastest case, by axis."""
    (advice,) = client.get(f"/api/v1/submissions/{submission}/report").json()["advice"]
    return {one["axis"]: one for one in advice["suggestions"]}


@pytest.mark.parametrize("how", [{}, FOR_A_COMPARISON])
def test_a_report_advises_nothing_that_it_measured_to_be_slower(
    night: Night, client: TestClient, how: dict[str, str]
) -> None:
    alone = submitted(client, BF16, **FOR_A_COMPARISON)
    night.answer(240.0)
    assert advice_at(client, alone)["layout"]["value"] == "channels_last"
    submission = submitted(client, BF16, CHANNELS, **how)
    night.answer(240.0)
    night.answer(200.0)
    assert "layout" not in advice_at(client, submission)


def test_what_a_report_measured_counts_before_what_the_nights_did(
    night: Night, client: TestClient
) -> None:
    night.measure(BF16, 100.0)
    night.measure(CHANNELS, 150.0)
    submission = submitted(client, BF16, CHANNELS, **FOR_A_COMPARISON)
    night.answer(240.0, 200.0)
    night.answer(230.0, 220.0)
    told = advice_at(client, submission)["layout"]
    assert told["speedup"] == pytest.approx(1.1), "without the loader, as the device is the limit"


def test_a_report_holds_nothing_against_other_hardware_or_what_was_taken_out(
    night: Night, client: TestClient
) -> None:
    elsewhere = FACTS | {"hw.cpu.model": "Another CPU"}
    submission = submitted(client, BF16, CHANNELS, FUSED, **FOR_A_COMPARISON)
    night.answer(240.0)
    night.answer(0.0, 200.0, facts=elsewhere)
    out = night.answer(230.0)
    assert "optimizer" not in advice_at(client, submission)
    body = {"reason": "a hot day", "actor": "ann"}
    assert client.put(f"/api/v1/results/{out}/exclusion", json=body).status_code == 200
    told = advice_at(client, submission)
    assert told["layout"]["speedup"] is None
    assert told["optimizer"]["speedup"] is None


def test_a_report_of_many_cases_asks_no_more_often(
    night: Night, client: TestClient, statements: Callable[[], list[str]]
) -> None:
    few, many = (
        submitted(client, WORKERS),
        submitted(
            client, BF16, FUSED, *(FUSED | {"decode": name} for name in ("cache", "cpu-uint8"))
        ),
    )
    for rate in (100.0, 200.0, 210.0, 220.0, 230.0):
        night.answer(rate)

    def asked(submission: str) -> int:
        before = len(statements())
        assert client.get(f"/api/v1/submissions/{submission}/report").json()["advice"]
        return len(statements()) - before

    asked(few)
    assert asked(few) == asked(many)


@pytest.fixture
def statements(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What was asked of the database so far, but for what the door asks once a second."""
    monkeypatch.setattr("service.auth.authenticate._LOOK_S", math.inf)
    seen: list[str] = []

    def note(*told: Any) -> None:
        seen.append(told[2])

    event.listen(Engine, "before_cursor_execute", note)
    yield lambda: list(seen)
    event.remove(Engine, "before_cursor_execute", note)
