"""A night's report says what was measured, what was not and why, and what it cost; told once."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from builders import analysed
from builders.measured import a_pass, a_replicate
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from benchmarks.contracts import Status, Telemetry, Trace
from service.database.session import Database, now_of
from service.findings import pipeline
from service.findings.nights import announce, facts
from service.jobs import schedules
from service.models import (
    Attempt,
    EventKind,
    FindingRow,
    OutboxEvent,
    Schedule,
    ScheduleRun,
    WorkerRow,
)
from service.models.project_filter import restrict
from service.schemas.costs import Price
from service.schemas.nights import NightReport
from service.wording import night as words

API = "/api/v1"
pytestmark = pytest.mark.both_databases


@dataclass
class Nightly:
    """A schedule of six cases, and the worker that measures them."""

    client: TestClient
    hand: Hand
    database: Database

    def put(self, name: str = "nightly", **more: Any) -> None:
        # Its next slot is days away, at whatever hour this runs: a slot that belongs to the same
        # night would be waited for.
        day = (datetime.now(UTC).isoweekday() + 3) % 7
        asked = {"cron": f"0 2 * * {day}", "suite": "smoke", "timezone": "Europe/Berlin"} | more
        answer = self.client.put(f"{API}/schedules/{name}", json=asked)
        assert answer.status_code == 200, answer.text

    def fire(self, hours: float = 0.0) -> datetime:
        """Let the newest slot have been due so long ago, and fire."""
        with self.database.writing() as session:
            due_at = now_of(session) - timedelta(hours=hours)
            session.execute(update(Schedule).values(next_due_at=due_at))
            assert schedules.fire_due(session, due_at)
        return due_at

    def report(self, **parameters: str) -> NightReport:
        answer = self.client.get(f"{API}/nights/newest", params=parameters)
        assert answer.status_code == 200, answer.text
        return NightReport.model_validate_json(answer.content)

    def told(self) -> list[OutboxEvent]:
        announce.announce(self.database)
        with self.database.reading() as session:
            kind = OutboxEvent.kind == EventKind.NIGHT_REPORTED
            return list(session.scalars(select(OutboxEvent).where(kind).order_by(OutboxEvent.id)))

    def analyse(self) -> None:
        while pipeline.look(self.database, daily=0).notes:
            pass


@pytest.fixture
def nightly(client: TestClient, hand: Hand) -> Nightly:
    nightly = Nightly(client, hand, client.app.state.database)  # type: ignore[attr-defined]
    with nightly.database.writing() as session:
        session.execute(update(Schedule).values(enabled=False))
    nightly.put()
    return nightly


def measured_joules(*joules: float | None) -> Any:
    told = [
        Telemetry(hz=10.0, t_s=Trace.of([0.0, 0.1]), channels={}, energy_j=each) for each in joules
    ]
    taken = a_replicate(a_pass(0.1), a_pass(0.1))
    return tuple(taken.model_copy(update={"telemetry": {"full": one}}) for one in told)


def test_what_was_measured_what_was_not_and_why(nightly: Nightly) -> None:
    nightly.fire()
    nightly.hand.measure()
    nightly.hand.measure(status=Status.OOM, reason="The batch does not fit.")
    nightly.hand.measure(status=Status.OOM, reason="The batch does not fit.")
    nightly.hand.measure()
    report = nightly.report()
    assert (report.schedules, report.finished) == (["nightly"], False)
    assert {one.workload: (one.measured, one.asked) for one in report.coverage} == {
        "nanogpt": (1, 2),
        "resnet50": (1, 2),
        "unet": (0, 2),
    }
    gaps = {one.why: (len(one.cases), one.waits) for one in report.unmeasured}
    assert gaps == {
        "oom: The batch does not fit.": (2, False),
        "No worker has taken it yet.": (2, True),
    }
    said = words.text(words.account(report))
    assert "no change was found, 2 of 6 cases measured, not finished" in said
    assert "2 cases: oom: The batch does not fit. (" in said


def test_a_night_without_a_measurement_does_not_say_that_all_is_well(nightly: Nightly) -> None:
    nightly.fire()
    report = nightly.report()
    assert words.headline(report) == "nothing is known, 0 of 6 cases measured, not finished"
    assert "no change" not in words.text(words.account(report))


def test_its_cost_is_the_time_of_attempts_and_the_energy_that_was_counted(nightly: Nightly) -> None:
    due_at = nightly.fire()
    nightly.hand.measure(replicates=measured_joules(1_000.0, 500.0))
    nightly.hand.measure()
    with nightly.database.writing() as session:
        session.execute(update(WorkerRow).values(labels={"device": "cuda"}))
        session.execute(
            update(Attempt).values(granted_at=due_at, ended_at=due_at + timedelta(hours=1.5))
        )
    cost = nightly.report().cost
    assert (cost.attempts, cost.gpu_s, cost.cpu_s) == (2, 2 * 5_400.0, 0.0)
    assert (cost.energy_j, cost.with_energy, cost.results) == (1_500.0, 1, 2)
    told = words.text(words.account(nightly.report()))
    assert "3.0 GPU-hours in 2 attempts." in told
    assert "0.000417 kWh in the timed passes of 1 of 2 results; the rest is unknown." in told


def test_its_cost_has_the_prices_of_the_operator(nightly: Nightly) -> None:
    due_at = nightly.fire()
    nightly.hand.measure()
    with nightly.database.writing() as session:
        labels = {"device": "cuda", "gpu": "H200"}
        session.execute(update(WorkerRow).values(labels=labels))
        session.execute(
            update(Attempt).values(granted_at=due_at, ended_at=due_at + timedelta(hours=2))
        )
    price = Price(gpu="H200", usd_per_hour=2.5, since=date(2026, 1, 1), source="our contract")
    nightly.client.app.state.prices = (price,)  # type: ignore[attr-defined]
    assert nightly.report().cost.usd == pytest.approx(5.0)
    told = words.text(words.account(nightly.report()))
    assert "2.0 GPU-hours in 1 attempt, 5.00 USD." in told
    assert "H200: 2.50 USD an hour since 2026-01-01, our contract." in told


def test_energy_that_nobody_counted_is_said_to_be_unknown(nightly: Nightly) -> None:
    nightly.fire()
    nightly.hand.measure()
    assert nightly.report().cost.energy_j is None
    told = words.text(words.account(nightly.report()))
    assert "Energy is not known: no result carries it." in told


def test_a_night_is_told_once_when_all_its_cases_have_ended(nightly: Nightly) -> None:
    nightly.fire()
    for _ in range(5):
        nightly.hand.measure()
        nightly.analyse()
        assert nightly.told() == []
    nightly.hand.measure()
    assert nightly.told() == [], "what came is not analysed yet"
    nightly.analyse()
    [told] = nightly.told()
    assert [one.id for one in nightly.told()] == [told.id]
    assert told.subject == nightly.report().night.isoformat()
    assert told.headline.endswith("no change was found, 6 of 6 cases measured")
    assert NightReport.model_validate(told.details).finished


def test_a_night_that_does_not_end_is_told_when_somebody_is_at_work(nightly: Nightly) -> None:
    nightly.fire(hours=7.9)
    assert nightly.told() == []
    nightly.fire(hours=8.1)
    [told] = nightly.told()[-1:]
    assert "0 of" in told.headline
    assert told.headline.endswith("not finished")


def test_an_old_night_is_not_told_after_a_long_downtime(nightly: Nightly) -> None:
    nightly.fire(hours=80)
    assert nightly.told() == []


def test_each_project_has_nights_of_its_own(nightly: Nightly) -> None:
    nightly.put("vision", project="vision", cron="0 3 * * *")
    nightly.fire(hours=8.5)
    assert {one.project for one in nightly.told()} == {"", "vision"}
    assert nightly.report(project="vision").schedules == ["vision"]
    assert nightly.report().schedules == ["nightly", "vision"]


def test_who_is_bound_to_a_project_reads_nothing_of_another(nightly: Nightly) -> None:
    nightly.put("vision", project="vision", cron="0 3 * * *")
    due_at = nightly.fire()
    for _ in range(12):
        nightly.hand.measure()
    assert nightly.report().cost.results == 12
    with nightly.database.reading() as session:
        restrict(session, "vision")
        report = facts.gather(session, facts.newest(session), due_at + timedelta(hours=1))
    assert (report.schedules, report.cost.results, report.cost.attempts) == (["vision"], 6, 6)
    assert sum(one.asked for one in report.coverage) == 6


def test_a_slot_that_submitted_nothing_is_named_with_its_reason(nightly: Nightly) -> None:
    nightly.fire()
    with nightly.database.writing() as session:
        session.execute(update(ScheduleRun).values(submission_id=None))
        session.execute(update(Schedule).values(note="It waits. No worker says where main is."))
    report = nightly.report()
    assert report.not_submitted == ["nightly: It waits. No worker says where main is."]
    assert words.headline(report) == "nothing was asked for"


def test_a_night_has_the_slots_of_one_date_where_the_clock_hangs(nightly: Nightly) -> None:
    late = datetime.fromisoformat("2026-11-26T23:30+00:00")  # half past midnight in Berlin
    nightly.put(cron="30 0 * * *")
    with nightly.database.writing() as session:
        session.execute(update(Schedule).values(next_due_at=late))
        schedules.fire_due(session, late)
        report = facts.gather(session, date(2026, 11, 27), late)
        before = facts.gather(session, date(2026, 11, 26), late)
    assert (report.begins, report.ends) == (late, late + timedelta(days=1))
    assert (report.schedules, before.schedules) == (["nightly"], [])
    assert before.ends == late, "where the next one begins"


def test_findings_are_told_in_the_night_in_which_they_were_opened_and_recovered(
    nightly: Nightly,
) -> None:
    opened = analysed.analyse(nightly.database)
    due_at = nightly.fire(hours=1)
    report = nightly.report()
    assert {one.id for one in report.changed} == {opened.regression, opened.node}
    assert report.recovered == []
    assert 0 <= report.expected_false < 0.2
    assert report.doubted == 1, "a finding about a node has no doubt by the detector"
    told = words.text(words.account(report))
    assert " of 2; the detector has no figure for 1 of them." in told
    resolved = {"state": "resolved", "closed_at": due_at + timedelta(minutes=1)}
    with nightly.database.writing() as session:
        one = update(FindingRow).where(FindingRow.id == opened.regression)
        session.execute(one.values(**resolved, opened_at=due_at - timedelta(days=9)))
    report = nightly.report()
    assert [one.id for one in report.changed] == [opened.node]
    assert [one.id for one in report.recovered] == [opened.regression]
    assert "1 change, 1 recovered" in words.headline(report)


def test_every_form_says_the_same_and_strangers_write_no_markup(nightly: Nightly) -> None:
    analysed.analyse(nightly.database)
    nightly.fire(hours=1)
    told = words.account(nightly.report())
    address = "https://perf.example.com"
    forms = [form(told, address) for form in (words.text, words.as_markdown, words.as_html)]
    for said in forms:
        for section in ("Changed", "Recovered", "Not measured", "Coverage", "Cost"):
            assert section in said
    for said in (forms[0], forms[2]):
        assert f"{address}/findings/" in said
    hostile = words.Account("<b>", "a\x00 & b", "/nights/x", ())
    assert "&lt;b&gt;" in words.as_html(hostile)
    feed = words.atom([(datetime.fromisoformat("2026-11-27T06:00+00:00"), hostile)], address)
    [entry] = ET.fromstring(feed).iter("{http://www.w3.org/2005/Atom}entry")
    assert entry.findtext("{http://www.w3.org/2005/Atom}title") == "<b>: a & b"


@pytest.mark.parametrize("name", ["2026-13-01", "0001-01-01", "tomorrow", "2026-1-1"])
def test_what_is_no_night_is_refused(client: TestClient, name: str) -> None:
    refused = client.get(f"{API}/nights/{name}")
    assert refused.status_code in (400, 422)
    assert "pattern" not in refused.json()["detail"]


def test_without_a_schedule_there_is_no_newest_night(client: TestClient) -> None:
    answer = client.get(f"{API}/nights/newest")
    assert answer.status_code == 404
    assert "No schedule has fired yet" in answer.json()["detail"]
    quiet = client.get(f"{API}/nights/2026-11-27").json()
    assert (quiet["schedules"], quiet["coverage"], quiet["changed"]) == ([], [], [])
