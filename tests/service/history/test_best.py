"""The best cases over HTTP, on the overview and by the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders.service_hand import FACTS, Hand
from fastapi.testclient import TestClient
from sqlalchemy import event, select
from sqlalchemy.engine import Engine

from benchmarks.contracts import Status
from cli.client import read
from cli.commands import best as command
from service.analysis.variance import Spread, Square
from service.history.best import best_cases
from service.models import AnalysisRow, SeriesRow
from service.models.project_filter import restrict
from service.schemas.best import BestCase
from service.schemas.jobs import Listing
from service.wording import formats

NOW = datetime.now(UTC).replace(microsecond=0)
PLAIN: dict[str, str] = {}
BF16 = {"precision": "bf16"}
COMPILED = {"compile": "default", "precision": "bf16"}


def measure(hand: Hand, axes: dict[str, str], rate: float, days: int, **more: Any) -> str:
    """One process of a case, measured so many days ago at a revision of that day."""
    at = NOW - timedelta(days=days)
    case = {"workload": more.pop("workload", "resnet50"), "axes": axes}
    body = {"case": case, "revision": f"d{days}", "revision_at": at.isoformat()}
    body |= more.pop("submission", {})
    answer = hand.client.post("/api/v1/submissions", json=body)
    assert answer.status_code == 201, answer.text
    rates = (rate * 0.999, rate, rate * 1.001)
    return hand.measure(rates, measured_at=at + more.pop("later", timedelta(0)), **more)


def asked(client: TestClient, **parameters: str) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/best", params=parameters)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def passing(hand: Hand) -> None:
    """Two cases and the plain one over twenty days; five days ago the second passes the first."""
    for days in (20, 16, 12, 8, 5, 2):
        measure(hand, PLAIN, 100.0, days)
        measure(hand, BF16, 200.0, days)
        measure(hand, COMPILED, 240.0 if days <= 5 else 150.0, days)


def tell_noise(client: TestClient, deviation: float) -> None:
    """Let every history vary by so much from night to night."""
    night = Square(deviation**2, 1e6)
    noise = Spread(1.0, 100, 1.0, 1.0, 1.0, step=None, process=None, night=night, node=None)
    with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        for series_id in session.scalars(select(SeriesRow.id)).all():
            row = AnalysisRow(
                series_id=series_id, points=20, newest=[], noise=None, spread=asdict(noise),
                warnings=[], analysed_at=NOW,
            )  # fmt: skip
            session.merge(row)


def test_the_best_is_told_with_what_it_overtook(client: TestClient, hand: Hand) -> None:
    passing(hand)
    tell_noise(client, 0.01)
    (best,) = asked(client)
    assert best["best"]["case"] == {"workload": "resnet50", "preset": "tiny", "axes": COMPILED}
    assert best["best"]["value"] == pytest.approx(240.0)
    assert (best["unit"], best["cases"]) == ("img/s", 3)
    assert (best["median"], best["worst"]) == pytest.approx((200.0, 100.0))
    assert best["over_baseline"]["value"] == pytest.approx(2.4)
    assert best["comparability"] == {name: FACTS[name] for name in FACTS if name[:2] == "hw"}
    told = best["overtaken"]
    assert told["before"]["case"]["axes"] == BF16
    assert told["since_revision"] == "d5"
    assert told["faster"]["low"] < 1.2 < told["faster"]["high"]
    assert asked(client, workload="unet") == []
    assert asked(client, workload="resnet50") == [best]


@pytest.mark.parametrize("purpose", ["history", "taken_out", "other_hardware", "before"])
def test_a_case_that_failed_parity_since_is_no_longer_the_best(
    client: TestClient, hand: Hand, purpose: str
) -> None:
    passing(hand)
    later = timedelta(hours=-1 if purpose == "before" else 1)
    facts = FACTS | ({"hw.cpu.model": "Another CPU"} if purpose == "other_hardware" else {})
    failed = measure(hand, COMPILED, 300.0, 2, status=Status.PARITY_FAIL, later=later, facts=facts)
    if purpose == "taken_out":
        why = {"reason": "The reference was wrong.", "actor": "ada"}
        assert client.put(f"/api/v1/results/{failed}/exclusion", json=why).is_success
    tell_noise(client, 0.01)
    (best,) = asked(client)
    assert best["best"]["case"]["axes"] == (BF16 if purpose == "history" else COMPILED)
    assert (best["overtaken"] is None) is (purpose == "history")


@pytest.mark.both_databases
def test_the_noise_of_the_histories_decides_which_are_as_good(
    client: TestClient, hand: Hand
) -> None:
    """205 is told from 200 where nights differ by 0.2 %; not by 5 %, nor where nothing is known."""
    measure(hand, BF16, 200.0, 1)
    measure(hand, COMPILED, 205.0, 1)
    (unknown,) = asked(client)
    tell_noise(client, 0.002)
    (steady,) = asked(client)
    tell_noise(client, 0.05)
    (restless,) = asked(client)
    told = [
        [one["case"]["axes"] for one in best["as_good"]] for best in (unknown, steady, restless)
    ]
    assert told == [[BF16], [], [BF16]]


def test_the_overview_and_the_command_say_the_same(
    client: TestClient, hand: Hand, capsys: pytest.CaptureFixture[str]
) -> None:
    passing(hand)
    tell_noise(client, 0.01)
    measure(hand, PLAIN, 10.0, 1, workload="unet")
    page = client.get("/").text.replace(formats.NBSP, " ")
    card = page[page.index('id="best"') :]
    card = card[: card.index("</section>")]
    assert card.count("<tr>") == 3  # its head, resnet50, unet
    assert 'aria-label="History of resnet50:tiny compile=default precision=bf16"' in card
    assert "240 img/s" in card
    assert formats.times(2.4) in card
    found = read(Listing[BestCase], client.get("/api/v1/best").text).items
    command._print(found)
    told = " ".join(capsys.readouterr().out.replace(formats.NBSP, " ").split())
    assert "resnet50:tiny on Test CPU · 2 cores" in told
    assert f"compile=default precision=bf16 240 img/s {formats.times(2.4)} 3" in told
    assert "precision=bf16: Overtook the case with compile=off at d5" in told
    assert [one.workload for one in found] == ["resnet50", "unet"]


@contextmanager
def statements() -> Iterator[list[str]]:
    """Note what is asked of any database meanwhile."""
    asked_: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        asked_.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield asked_
    event.remove(Engine, "before_cursor_execute", note)


def test_the_overview_costs_as_many_queries_for_many_histories_as_for_few(
    client: TestClient, hand: Hand
) -> None:
    def cost(path: str) -> int:
        with statements() as noted:
            assert client.get(path).status_code == 200
        return len(noted)

    for axes in (PLAIN, BF16):
        measure(hand, axes, 100.0, 1)
    measure(hand, COMPILED, 1.0, 1, status=Status.PARITY_FAIL)
    few, listed = cost("/"), cost("/api/v1/best")
    for workers in ("2", "4", "8", "16"):
        for more in (PLAIN, BF16):
            measure(hand, {"workers": workers, **more}, 100.0, 1)
    assert cost("/") == few
    assert cost("/api/v1/best") == listed


def test_only_what_a_reader_of_a_project_may_see_is_ranked(client: TestClient, hand: Hand) -> None:
    measure(hand, PLAIN, 100.0, 1)
    measure(hand, BF16, 300.0, 1, submission={"project": "red"})
    measure(hand, BF16, 300.0, 1, status=Status.PARITY_FAIL, later=timedelta(hours=1))
    with client.app.state.database.reading() as session:  # type: ignore[attr-defined]
        everybody = {one.project: one.best.value for one in best_cases(session, NOW)}
    with client.app.state.database.reading() as session:  # type: ignore[attr-defined]
        restrict(session, "red")
        red = {one.project: one.best.value for one in best_cases(session, NOW)}
    # The failure is of no project: it takes nothing from the case of the project.
    assert everybody == pytest.approx({"": 100.0, "red": 300.0})
    assert red == pytest.approx({"red": 300.0})
