"""A case that overtakes the best is a finding of its own kind: told once, closed when over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

import pytest
from builders.service_hand import Hand
from fastapi.testclient import TestClient

from service import findings
from service.database.session import Database
from service.findings import fastest_cases, pipeline
from service.findings.lifecycle import SYSTEM_ACTOR
from service.history.best import best_cases
from service.maintenance.verify.invariants import verify
from service.models import FindingRow, FindingState
from service.schemas.findings import FindingKind, FindingSummary, FindingView
from service.wording import formats

NOW = datetime.now(UTC).replace(microsecond=0)
NIGHTS = 26
BF16 = {"precision": "bf16"}
COMPILED = {"compile": "default", "precision": "bf16"}


class Nights:
    """Measures cases once a night, with a noise of 0.2 %, and has the service look."""

    def __init__(self, client: TestClient, hand: Hand) -> None:
        self.database: Database = client.app.state.database  # type: ignore[attr-defined]
        self._hand = hand
        self._number, self._random = count(), Random(7)

    def run(self, *rates: tuple[dict[str, str], Sequence[float]]) -> list[FindingSummary]:
        """One night for each rate of the cases; what the service then opened of this kind."""
        for of_night in zip(*(values for _, values in rates), strict=True):
            number = next(self._number)
            at = NOW - timedelta(days=NIGHTS - number)
            for (axes, _), rate in zip(rates, of_night, strict=True):
                self._measure(axes, rate, f"n{number}", at)
        looked = pipeline.look(self.database, daily=0)
        with self.database.reading() as session:
            told = findings.list_findings(session, FindingRow.id.in_(looked.opened)).items
        return [one for one in told if one.kind is FindingKind.OVERTAKEN]

    def _measure(self, axes: dict[str, str], rate: float, revision: str, at: datetime) -> None:
        case = {"workload": "resnet50", "axes": axes}
        body = {"case": case, "revision": revision, "revision_at": at.isoformat()}
        answer = self._hand.client.post("/api/v1/submissions", json=body)
        assert answer.status_code == 201, answer.text
        seen = rate * self._random.gauss(1.0, 0.002)
        self._hand.measure((seen * 0.999, seen, seen * 1.001), measured_at=at)

    def finding(self, finding_id: str) -> FindingView:
        with self.database.reading() as session:
            return findings.load_finding(session, finding_id)


@pytest.fixture
def nights(client: TestClient, hand: Hand) -> Nights:
    return Nights(client, hand)


def overtaken(nights: Nights) -> FindingSummary:
    """Fourteen nights behind, then six ahead: until then its step up passes for noise."""
    assert nights.run((BF16, [200.0] * 14), (COMPILED, [190.0] * 14)) == []
    assert nights.run((BF16, [200.0] * 2), (COMPILED, [220.0] * 2)) == []
    (told,) = nights.run((BF16, [200.0] * 4), (COMPILED, [220.0] * 4))
    return told


@pytest.mark.both_databases(slow="postgresql")
def test_it_is_told_once_with_both_cases_and_which_of_them_changed(
    client: TestClient, nights: Nights
) -> None:
    told = overtaken(nights)
    said = told.sentence.replace(formats.NBSP, " ")
    assert said.startswith("In 14 days the case with compile=off, until then the fastest of resnet")
    assert ", lost 0.2 %, the case with compile=default gained 1" in said
    assert "Since n14 the latter leads, by 10.4 % (+" in said
    assert told.headline == "resnet50 is fastest with compile=default since n14"
    assert told.share == pytest.approx(0.1, abs=0.01)
    assert (told.first_bad, told.state, told.series_count) == ("n14", FindingState.OPEN, 0)
    assert len(told.headline.split()) < 12
    assert nights.run((BF16, [200.0] * 2), (COMPILED, [220.0] * 2)) == []
    page = client.get(f"/findings/{told.id}").text
    for place in ("before", "since"):
        assert page.count(f'"Place">fastest {place}') == 1
    assert "new best case" in client.get("/findings").text
    assert told.id not in str(verify(nights.database))


def test_what_a_person_has_closed_is_not_told_again(client: TestClient, nights: Nights) -> None:
    told = overtaken(nights)
    act = {"action": "acknowledge", "actor": "ada"}, {"action": "resolve", "actor": "ada"}
    for body in act:
        answer = client.post(f"/api/v1/findings/{told.id}/actions", json=body)
        assert answer.is_success, answer.text
    assert nights.run((BF16, [200.0]), (COMPILED, [220.0])) == []


def test_it_is_over_once_another_case_is_surely_faster(nights: Nights) -> None:
    told = overtaken(nights)
    nights.run((BF16, [200.0]), (COMPILED, [200.2]))
    assert nights.finding(told.id).summary.state is FindingState.OPEN  # as good as the other
    nights.run((BF16, [200.0] * 2), (COMPILED, [150.0] * 2))
    closed = nights.finding(told.id)
    assert closed.summary.state is FindingState.RESOLVED
    assert (closed.events[-1].actor, closed.events[-1].detail) == (
        SYSTEM_ACTOR,
        "another case is the fastest now",
    )


def test_it_is_over_once_it_is_no_news(nights: Nights) -> None:
    told = overtaken(nights)
    with nights.database.writing() as session:
        rankings, opened = best_cases(session, NOW), told.opened_at
        fastest_cases.watch(session, rankings, opened + timedelta(days=13))
        assert session.get_one(FindingRow, told.id).state == FindingState.OPEN
        fastest_cases.watch(session, rankings, opened + timedelta(days=15))
        assert session.get_one(FindingRow, told.id).state == FindingState.RESOLVED


@pytest.mark.parametrize("rate", [199.0, 200.4])
def test_what_the_noise_explains_is_not_told(nights: Nights, rate: float) -> None:
    nights.run((BF16, [200.0] * 14), (COMPILED, [190.0] * 14))
    assert nights.run((BF16, [200.0] * 6), (COMPILED, [rate] * 6)) == []
