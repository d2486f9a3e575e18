"""Comparisons with several replicas and over restarts: each round is submitted once."""

import importlib
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Case, Worker
from service import comparisons
from service.comparisons import bisection
from service.database.session import Database, now_of
from service.jobs import workers
from service.jobs.types import Terms
from service.maintenance.background import Background
from service.models import BisectionRow, ComparisonJob, ComparisonRow, Job
from service.schemas.bisections import BisectionRequest, RangeCommit
from service.schemas.comparisons import ComparisonRequest

pytestmark = pytest.mark.both_databases

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
REQUEST = ComparisonRequest(baseline="a", contender="b", case=Case(workload="unet"))


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """Another replica's connections to the same database."""
    found = Database(database_url)
    yield found
    found.close()


def begin(database: Database) -> str:
    with database.writing() as session:
        now = now_of(session)
        workers.introduce(session, Worker(name="w1"), now)
        return comparisons.start(session, REQUEST, now).comparison_id


def test_a_round_is_submitted_once_however_many_replicas_look(
    database: Database, other: Database
) -> None:
    comparison_id = begin(database)
    gate = threading.Barrier(6)
    errors: list[Exception] = []

    def look(replica: Database) -> None:
        gate.wait()
        try:
            list(comparisons.advance_after(replica, ""))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=look, args=(replica,)) for replica in (database, other) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(ComparisonJob)) == 2
        assert session.scalar(select(func.count()).select_from(Job)) == 1, "it measures both sides"
        assert session.get_one(ComparisonRow, comparison_id).rounds == 1


def test_a_comparison_is_decided_once_and_by_one(database: Database, other: Database) -> None:
    comparison_id = begin(database)
    later = timedelta(days=1)
    with database.writing() as session:
        assert comparisons.advance(session, comparison_id, now_of(session) + later)
    with other.writing() as session:
        assert not comparisons.advance(session, comparison_id, now_of(session) + later)


def test_one_that_cannot_be_moved_on_holds_no_other_up(database: Database) -> None:
    broken, whole = begin(database), begin(database)
    with database.writing() as session:
        session.get_one(ComparisonRow, broken).request = {"written by": "another version"}
    list(comparisons.advance_after(database, ""))
    with database.reading() as session:
        assert session.get_one(ComparisonRow, whole).rounds == 1


def test_many_comparisons_keep_no_lease_from_being_swept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look moves as many on as fit between two sweeps, and begins where the last one ended."""
    ids = sorted(begin(database) for _ in range(3))
    moved: list[str] = []

    def slow(_session: Session, comparison_id: str, _now: datetime) -> bool:
        moved.append(comparison_id)
        return False

    module = importlib.import_module("service.comparisons.advance")
    monkeypatch.setattr(module, "advance", slow)
    background = Background(database, TERMS, every_s=0.0)
    for _ in range(4):
        background._look()
    assert moved == [*ids, ids[0]]


def test_a_probe_is_asked_once_however_many_replicas_look(
    database: Database, other: Database
) -> None:
    commits = tuple(RangeCommit(revision=name) for name in ("a", "b", "c"))
    with database.writing() as session:
        now = now_of(session)
        workers.introduce(session, Worker(name="w1"), now)
        wanted = BisectionRequest(commits=commits, case=Case(workload="unet"))
        bisection_id = bisection.start(session, wanted, now)
    gate = threading.Barrier(6)
    errors: list[Exception] = []

    def look(replica: Database) -> None:
        gate.wait()
        try:
            list(bisection.advance_after(replica))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=look, args=(replica,)) for replica in (database, other) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with database.reading() as session:
        row = session.get_one(BisectionRow, bisection_id)
        made = session.scalar(select(func.count()).select_from(ComparisonRow))
        assert (row.probed, len(row.probes), made) == (1, 1, 1)
