"""`compare` with one process a side: the noise is that of the series' own history."""

import re
from typing import Any

import numpy as np
import pytest
from builders import long_series as long
from builders.service_hand import FACTS, Hand
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.database.session import Database
from service.history.run_noise import spreads_of
from service.models import Point


def changes(client: TestClient, baseline: int, contender: int) -> Any:
    revisions = {"baseline": long.revision_of(baseline), "contender": long.revision_of(contender)}
    answer = client.get("/api/v1/changes", params=revisions)
    assert answer.status_code == 200, answer.text
    [told] = answer.json()["changes"]
    return told


def history(client: TestClient, values: list[float], replicates: int = 1) -> None:
    """An analysed series of these values, each of so many processes."""
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(values)))
        session.execute(update(Point).values(replicates=replicates))
        long.analyse(session, long.SERIES, long.START)


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("factor", "verdict", "undecided"),
    [(0.86, "slower", False), (0.951, "slower", False), (0.999, "unclear", False)],
)
def test_a_long_history_tells_one_process_from_another(
    client: TestClient, factor: float, verdict: str, undecided: bool
) -> None:
    values = long.noisy([100.0] * 40)
    history(client, [*values, values[39] * factor])
    told = changes(client, 39, 40)
    assert (told["verdict"], told["undecided"]) == (verdict, undecided)
    assert told["change_low"] < told["change"] < told["change_high"]


def test_a_short_history_tells_nothing_and_says_what_would(client: TestClient) -> None:
    history(client, [100.0, 100.2, 99.9, 100.1, 95.1])
    told = changes(client, 3, 4)
    assert (told["verdict"], told["undecided"], told["change_low"]) == ("unclear", True, None)
    assert "its history is too short" in told["note"]
    assert "measure 3 processes a side (--replicates 3)" in told["note"]


def test_the_noise_of_a_history_is_that_of_its_points(client: TestClient) -> None:
    history(client, long.noisy([100.0] * 100, deviation=0.01), replicates=3)
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    with database.reading() as session:
        [told] = spreads_of(session, [long.SERIES, long.OTHER]).values()
    assert told.parts.keys() == {"process and night"}
    assert told.parts["process and night"].deviation == pytest.approx(0.01, rel=0.4)
    assert (told.processes, told.nights) == (3.0, 30)
    three, one, many = (told.repeat(count) for count in (3, 1, 12))
    assert three is not None
    assert one == pytest.approx(three * np.sqrt(3))
    assert many == three, "more processes share what differs from night to night"


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).replace("\u00a0", " ")


def test_pages_and_the_api_say_where_the_next_night_falls_and_what_is_unknown(
    client: TestClient,
) -> None:
    history(client, long.noisy([100.0] * 40, deviation=0.01))
    spread = client.get(f"/api/v1/series/{long.SERIES}/analysis").json()["spread"]
    assert 96.0 < spread["next_low"] < 99.0 < spread["level"] < 101.0 < spread["next_high"] < 104.0
    assert spread["parts"].keys() == {"process and night"}
    for unknown in ("How nodes differ is unknown", "Process and night cannot be told apart"):
        assert unknown in spread["sentence"]
    page = plain(client.get(f"/series/{long.SERIES}").text)
    assert "95 %, on a node that has measured it before" in page
    assert "step unknown, node unknown" in page
    [point, *_] = client.get(f"/api/v1/series/{long.SERIES}").json()["points"]
    run = client.get(f"/runs/{point['result_id']}").text
    assert "95 %, another night" in run


def test_one_night_says_that_the_next_is_unknown(client: TestClient, hand: Hand) -> None:
    body = {"case": {"workload": "resnet50"}, "revision": "r1"}
    assert client.post("/api/v1/submissions", json=body).status_code == 201
    result = hand.measure((99.0, 100.0, 101.0))
    run = plain(client.get(f"/runs/{result}").text)
    assert "95 %, another night" in run
    assert "unknown" in run
    assert "±" in run
    assert "this night" in run


@pytest.mark.parametrize(
    ("code", "verdict", "undecided"),
    [(("one", "one"), "unclear", True), (("one", "two"), "slower", False), (None, "slower", False)],
)
def test_two_names_for_one_code_are_not_compared(
    client: TestClient, hand: Hand, code: tuple[str, str] | None, verdict: str, undecided: bool
) -> None:
    for place, (revision, rate) in enumerate((("r1", 100.0), ("r2", 90.0))):
        body = {"case": {"workload": "resnet50"}, "revision": revision}
        assert client.post("/api/v1/submissions", json=body).status_code == 201
        facts = FACTS if code is None else FACTS | {"sw.benchmarks": code[place]}
        hand.measure((rate - 0.1, rate, rate + 0.1), facts=facts)
    answer = client.get("/api/v1/changes", params={"baseline": "r1", "contender": "r2"})
    [told] = answer.json()["changes"]
    assert (told["verdict"], told["undecided"]) == (verdict, undecided)
    assert ("ran the same code" in told["note"]) == undecided
