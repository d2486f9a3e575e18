"""Schedules: right on the nights when clocks change, each slot once, the newest after downtime."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from benchmarks.catalog import suites
from service.database.session import Database, now_of
from service.jobs import schedules
from service.jobs.schedules import ScheduleRequest, newest_due, slots
from service.models import Job, Schedule, ScheduleRun, Submission

pytestmark = pytest.mark.both_databases

BERLIN = ZoneInfo("Europe/Berlin")


def local(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=BERLIN)  # type: ignore[misc]


def some(cron: str, after: datetime, count: int, timezone: str = "Europe/Berlin") -> list[str]:
    found = islice(slots(cron, timezone, after), count)
    return [slot.astimezone(ZoneInfo(timezone)).isoformat(" ", "minutes") for slot in found]


def test_a_job_in_the_hour_that_spring_skips_runs_when_the_clock_has_jumped() -> None:
    assert some("30 2 * * *", local(2026, 3, 28, 3), 2) == [
        "2026-03-29 03:00+02:00",
        "2026-03-30 02:30+02:00",
    ]


def test_a_job_in_the_hour_that_autumn_repeats_runs_once() -> None:
    assert some("30 2 * * *", local(2026, 10, 24, 3), 2) == [
        "2026-10-25 02:30+02:00",
        "2026-10-26 02:30+01:00",
    ]


def test_looking_again_within_the_repeated_hour_finds_no_slot_behind() -> None:
    inside = datetime(2026, 10, 25, 2, 10, tzinfo=BERLIN, fold=1).astimezone(UTC)
    (following,) = islice(slots("30 2 * * *", "Europe/Berlin", inside), 1)
    assert following == local(2026, 10, 26, 2, 30)


def test_an_hourly_job_runs_in_both_of_the_repeated_hours() -> None:
    assert some("0 * * * *", local(2026, 10, 25, 1, 30), 3) == [
        "2026-10-25 02:00+02:00",
        "2026-10-25 02:00+01:00",
        "2026-10-25 03:00+01:00",
    ]


@given(
    first=st.integers(0, 525_600).map(
        lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    ),
    hours=st.integers(0, 24 * 12),
    cron=st.sampled_from(["30 2 * * *", "0 */7 * * *", "15 2 * * 0", "*/50 * * * *"]),
)
def test_the_newest_missed_slot_is_the_last_that_one_by_one_finds(
    first: datetime, hours: int, cron: str
) -> None:
    now = first + timedelta(hours=hours)
    (start,) = islice(slots(cron, "Europe/Berlin", first), 1)
    slow = [start] if start <= now else []
    for slot in slots(cron, "Europe/Berlin", start):
        if slot > now:
            break
        slow.append(slot)
    assert newest_due(cron, "Europe/Berlin", start, now) == (slow[-1] if slow else None)


def request(cron: str = "30 2 * * *", **more: Any) -> ScheduleRequest:
    fields = {"cron": cron, "timezone": "Europe/Berlin", "suite": "smoke"} | more
    return ScheduleRequest.model_validate(fields)


def put(database: Database, at: datetime, wanted: ScheduleRequest, name: str = "s") -> None:
    with database.writing() as session:
        session.execute(text("DELETE FROM schedules"))
        schedules.put(session, name, wanted, at)


def fire(database: Database, at: datetime) -> list[schedules.Fired]:
    with database.writing() as session:
        return schedules.fire_due(session, at)


def count(database: Database, table: Any) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_slot_fires_once_over_the_autumn_night(database: Database) -> None:
    put(database, local(2026, 10, 24, 12), request())
    at, fired = local(2026, 10, 25, 0).astimezone(UTC), []
    for _ in range(6 * 6):
        fired += fire(database, at)
        at += timedelta(minutes=10)
    assert [each.due_at for each in fired] == [local(2026, 10, 25, 2, 30).astimezone(UTC)]
    assert count(database, Submission) == 1


def test_two_replicas_fire_a_slot_once(database: Database) -> None:
    put(database, local(2026, 6, 1, 12), request())
    fired: list[schedules.Fired] = []
    gate = threading.Barrier(4)

    def replica() -> None:
        gate.wait()
        fired.extend(fire(database, local(2026, 6, 2, 3)))

    threads = [threading.Thread(target=replica) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fired) == 1
    assert count(database, ScheduleRun) == count(database, Submission) == 1


def test_a_slot_that_another_replica_fired_is_left_alone(database: Database) -> None:
    put(database, local(2026, 6, 1, 12), request())
    assert len(fire(database, local(2026, 6, 2, 3))) == 1
    with database.writing() as session:  # as a replica that restarted from an older look sees it
        session.execute(text("UPDATE schedules SET next_due_at = '2026-06-02 00:30:00+00:00'"))
    assert fire(database, local(2026, 6, 2, 4)) == []
    assert count(database, Submission) == 1


def test_after_downtime_only_the_newest_missed_slot_fires(database: Database) -> None:
    put(database, local(2026, 6, 1, 12), request())
    (fired,) = fire(database, local(2026, 6, 20, 12))
    assert fired.due_at == local(2026, 6, 20, 2, 30)
    with database.reading() as session:
        assert schedules.load(session, "s").next_due_at == local(2026, 6, 21, 2, 30)


def test_a_clock_that_was_ahead_for_one_look_silences_no_schedule(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    put(database, local(2026, 6, 1, 12), request())
    assert len(fire(database, local(2036, 6, 2, 3))) == 1
    fired = []
    for day in range(2, 6):
        for hour in (2, 3):
            fired += fire(database, local(2026, 6, day, hour))
    assert [each.due_at for each in fired] == [local(2026, 6, day, 2, 30) for day in range(2, 6)]
    assert caplog.text.count("as after a clock that was ahead") == 1


def test_a_slot_that_fired_early_does_not_fire_again_when_the_clock_is_right(
    database: Database,
) -> None:
    put(database, local(2026, 6, 1, 12), request())
    assert len(fire(database, local(2026, 6, 2, 3))) == 1
    assert fire(database, local(2026, 6, 2, 2)) == []
    assert fire(database, local(2026, 6, 2, 3)) == []
    assert len(fire(database, local(2026, 6, 3, 3))) == 1


def test_a_replica_that_looks_a_moment_behind_another_sets_nothing_back(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    put(database, local(2026, 6, 1, 12), request())
    slot = local(2026, 6, 2, 2, 30)
    assert len(fire(database, slot)) == 1
    assert fire(database, slot - timedelta(seconds=5)) == []
    assert "ahead" not in caplog.text


def change(database: Database, at: datetime, wanted: ScheduleRequest) -> None:
    with database.writing() as session:
        schedules.put(session, "s", wanted, at)


@pytest.mark.parametrize("more", [{}, {"revision_rule": "fixed:v1"}])
def test_setting_a_schedule_again_drops_no_slot_that_is_due(
    database: Database, more: dict[str, str]
) -> None:
    put(database, local(2026, 6, 1, 12), request())
    change(database, local(2026, 6, 2, 3), request(**more))
    (fired,) = fire(database, local(2026, 6, 2, 3))
    assert fired.due_at == local(2026, 6, 2, 2, 30)


@pytest.mark.parametrize(
    "wanted", [request("0 2 * * *"), request(timezone="UTC"), request(enabled=False)]
)
def test_a_schedule_with_other_times_fires_from_then_on(
    database: Database, wanted: ScheduleRequest
) -> None:
    put(database, local(2026, 6, 1, 12), request())
    change(database, local(2026, 6, 2, 5), wanted)
    assert fire(database, local(2026, 6, 2, 5)) == []
    change(database, local(2026, 6, 2, 6), wanted)
    assert len(fire(database, local(2026, 6, 3, 5))) == wanted.enabled


@pytest.mark.parametrize(
    ("rule", "revision"),
    [("date", "2026-06-02"), ("latest", "2026-06-02"), ("fixed:v1.2", "v1.2")],
)
def test_a_slot_names_its_revision_by_rule(database: Database, rule: str, revision: str) -> None:
    put(database, local(2026, 6, 1, 12), request("30 0 * * *", revision_rule=rule))
    fire(database, local(2026, 6, 2, 3))
    with database.reading() as session:
        (row,) = session.scalars(select(Submission))
    assert (row.revision, row.source, row.suite) == (revision, "schedule:s", "smoke")


def test_a_schedule_whose_suite_is_gone_does_not_stop_the_others(database: Database) -> None:
    put(database, local(2026, 6, 1, 12), request(), "good")
    with database.writing() as session:
        schedules.put(session, "bad", request(), local(2026, 6, 1, 12))
        session.execute(text("UPDATE schedules SET suite = 'gone' WHERE name = 'bad'"))
    fired = {each.schedule: each.submission_id for each in fire(database, local(2026, 6, 2, 3))}
    assert fired["bad"] is None
    assert fired["good"] is not None


def test_a_schedule_says_in_the_log_what_it_left_out(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    on_cpu = request(suite="nightly", requires={"device": "cpu"})
    put(database, local(2026, 6, 1, 12), on_cpu, "on-cpu")
    (fired,) = fire(database, local(2026, 6, 2, 3))
    with database.reading() as session:
        of_it = select(func.count(Job.group_id.distinct())).where(
            Job.submission_id == fired.submission_id
        )
        missing = len(suites.suite("nightly").cases) - (session.scalar(of_it) or 0)
    assert missing > 0
    assert f"schedule on-cpu: {missing} cases of the suite nightly are left out" in caplog.text
    with database.writing() as session:
        assert schedules.fire(session, "on-cpu", local(2026, 6, 2, 4)).left_out == missing


def test_a_schedule_that_leaves_nothing_out_says_nothing(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    put(database, local(2026, 6, 1, 12), request())
    assert len(fire(database, local(2026, 6, 2, 3))) == 1
    assert "left out" not in caplog.text


def test_a_disabled_schedule_does_not_fire(database: Database) -> None:
    put(database, local(2026, 6, 1, 12), request(enabled=False))
    assert fire(database, local(2026, 6, 20, 12)) == []


def test_nightly_is_there_from_the_start_and_does_not_fire_at_once(database: Database) -> None:
    assert fire(database, datetime(2026, 11, 20, 8, tzinfo=UTC)) == []
    with database.reading() as session:
        (nightly,) = session.scalars(select(Schedule))
    assert (nightly.name, nightly.cron, nightly.suite) == ("nightly", "0 2 * * *", "nightly")
    assert nightly.next_due_at == datetime(2026, 11, 21, 2, tzinfo=UTC)
    assert len(fire(database, datetime(2026, 11, 21, 2, tzinfo=UTC))) == 1


def test_a_schedule_that_nobody_has_looked_at_yet_says_when_it_is_due(database: Database) -> None:
    """The migration makes `nightly` without a time; the first look gives it the one told here."""
    with database.reading() as session:
        (row,) = session.scalars(select(Schedule))
        assert (row.enabled, row.next_due_at) == (True, None)
        (listed,) = schedules.every(session)
        assert schedules.load(session, "nightly") == listed
        now = now_of(session)
    assert listed.next_due_at is not None
    assert timedelta() < listed.next_due_at - now <= timedelta(days=1)
    fire(database, now)
    with database.reading() as session:
        assert schedules.every(session) == [listed]


def test_a_nightly_that_was_deleted_stays_deleted(database_url: str) -> None:
    from service.database.migrate import upgrade

    database = Database(database_url)
    with database.writing() as session:
        schedules.delete(session, "nightly")
    upgrade(database_url)
    assert count(database, Schedule) == 0
    database.close()


def test_schedules_are_kept_by_http(client: TestClient) -> None:
    body = {"cron": "0 4 * * 1-5", "timezone": "Europe/Berlin", "suite": "smoke"}
    made = client.put("/api/v1/schedules/weekdays", json=body)
    assert made.status_code == 200
    assert made.json()["next_due_at"] is not None
    names = [each["name"] for each in client.get("/api/v1/schedules").json()["items"]]
    assert names == ["nightly", "weekdays"]
    fired = client.post("/api/v1/schedules/weekdays/fire")
    assert (fired.status_code, fired.json()["source"]) == (201, "schedule:weekdays")
    off = client.put("/api/v1/schedules/weekdays", json=body | {"enabled": False}).json()
    assert (off["enabled"], off["next_due_at"]) == (False, None)
    assert client.delete("/api/v1/schedules/weekdays").status_code == 204
    assert client.get("/api/v1/schedules/weekdays").status_code == 404
    assert client.get(f"/api/v1/submissions/{fired.json()['id']}").status_code == 200
