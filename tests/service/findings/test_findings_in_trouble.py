"""A trouble with one series, one value or the database keeps no other finding from being told."""

import math
from datetime import datetime
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from builders import long_series as long
from builders.long_series import DROPPED, STEADY, noisy
from builders.looked import QUIET
from builders.measured import a_pass, a_replicate
from sqlalchemy import func, insert, select
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.orm import Session

from benchmarks.contracts import Result, Telemetry, Trace
from service import findings
from service.database.session import Database
from service.findings import opening, pipeline, update
from service.history import analysis, pending
from service.history.analysis import load_history
from service.history.series_history import SeriesHistory
from service.models import FindingRow, FindingState, WorkerRow


def test_a_series_with_zeros_holds_no_other_up(session: Session) -> None:
    zeros = [0.0] * 30 + [8.0] * 5 + [0.0] * 6
    falls = noisy([100.0] * 40 + [80.0] * 12)
    for number, value in enumerate(falls):
        long.add(session, {number: value})
        if number < len(zeros):
            long.add(session, {number: zeros[number]}, series_id=long.OTHER, place=1)
        if number >= QUIET:
            long.look(session)
    found = [each for each in findings.list_findings(session).items if each.worst_effect]
    assert any(each.first_bad == long.revision_of(40) for each in found)


@pytest.mark.both_databases
@pytest.mark.parametrize("shift", [0.0, -1.2])
def test_a_machines_offset_is_taken_out_as_it_was_found(session: Session, shift: float) -> None:
    """By its ratio, or where a series holds zeros or both signs, by its part of the size."""
    random = np.random.default_rng(0)
    session.execute(
        insert(WorkerRow).values(
            name="x", labels={}, version="", first_seen_at=long.START, last_seen_at=long.START
        )
    )
    for number in range(60):
        worker = "wwwwx"[number % 5]
        value = 1.0 + 0.5 * (worker == "x") + float(random.normal(0, 0.01)) + shift
        long.add(session, {number: value}, worker)
    long.analyse(session, long.SERIES, long.START)
    history = load_history(session, long.SERIES)
    measured = list(zip(history.recent.points, history.values, strict=True))
    means = [np.mean([own for point, own in measured if point.worker == each]) for each in "wx"]
    assert means[0] == pytest.approx(means[1], abs=0.02)


def test_a_neighbour_that_is_zero_on_one_machine_holds_no_finding_up(database: Database) -> None:
    random = np.random.default_rng(5)
    with database.writing() as session:
        long.prepare(session, ["w", "idle"])
        for number, value in enumerate(noisy([100.0] * 20 + [80.0] * 14)):
            worker = "idle" if number % 5 == 4 else "w"
            other = 0.0 if worker == "idle" else 8.0 + float(random.normal(0, 0.002))
            long.add(session, {number: value}, worker)
            long.add(session, {number: other}, worker, long.OTHER, place=1)
            if number >= QUIET:
                long.look(session)
        (finding,) = findings.list_findings(session).items
        assert finding.first_bad == long.revision_of(20)


@pytest.mark.both_databases(slow="postgresql")
@pytest.mark.parametrize("glitch", [math.nan, math.inf])
def test_a_reading_that_is_no_number_keeps_no_regression_from_being_told(
    database: Database, monkeypatch: pytest.MonkeyPatch, glitch: float
) -> None:
    plain = long._result

    def with_telemetry(value: float, at: datetime, series_id: str) -> Result:
        clocks = [glitch, 7e8] if at == long.placed_at(21) else [7e8, 7.01e8]
        channels = {"sm_clock_hz": Trace.of(clocks)}
        told = Telemetry(hz=10.0, t_s=Trace.of([0.0, 0.1]), channels=channels)
        replicate = a_replicate(a_pass(value), a_pass(value))
        replicate = replicate.model_copy(update={"telemetry": {"full": told}})
        return plain(value, at, series_id).model_copy(update={"replicates": (replicate,)})

    monkeypatch.setattr(long, "_result", with_telemetry)
    with database.writing() as session:
        long.prepare(session)
    for number, value in enumerate(noisy(STEADY + DROPPED)):
        with database.writing() as session:
            long.add(session, {number: value})
        pipeline.look(database, daily=0)
    with database.reading() as session:
        assert pending.pending_series(session).notes == ()
        (finding,) = findings.list_findings(session).items
        assert finding.first_bad == long.revision_of(20)
        assert findings.load_finding(session, finding.id).attribution.sentence


def test_a_change_that_the_database_does_not_take_holds_no_other_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(session: Session, *_: Any) -> None:
        raise DataError("INSERT", {}, ValueError("Token NaN is invalid: a device is busy"))

    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(noisy(STEADY + DROPPED))))
    monkeypatch.setattr(opening, "_open_or_join", refused)
    pipeline.look(database, daily=0)
    with database.reading() as session:
        assert pending.pending_series(session).notes == ()


@pytest.mark.parametrize(("module", "where"), [(pipeline, "candidates"), (update, "follow")])
def test_a_series_whose_values_the_database_does_not_take_holds_no_other_up(
    database: Database, monkeypatch: pytest.MonkeyPatch, module: ModuleType, where: str
) -> None:
    def refused(*_: Any) -> None:
        raise DataError("INSERT", {}, ValueError("Token NaN is invalid"))

    with database.writing() as session:
        long.prepare(session)
        long.add(session, {0: 100.0})
    monkeypatch.setattr(module, where, refused)
    pipeline.look(database, daily=0)
    with database.reading() as session:
        assert pending.pending_series(session).notes == ()


def test_a_database_that_is_away_costs_no_change(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise OperationalError("INSERT", {}, ConnectionError("the server is gone"))

    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(noisy(STEADY + DROPPED))))
    with monkeypatch.context() as patched:
        patched.setattr(opening, "_open_or_join", away)
        with pytest.raises(OperationalError):
            pipeline.look(database, daily=0)
    assert pipeline.look(database, daily=0).opened


def test_a_series_that_cannot_be_analysed_holds_no_other_up(
    session: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = pipeline.candidates

    def broken(session: Session, history: SeriesHistory, *rest: Any) -> list[Any]:
        if history.series.id == long.OTHER:
            raise ZeroDivisionError
        return good(session, history, *rest)

    monkeypatch.setattr(pipeline, "candidates", broken)
    for number, value in enumerate(noisy(STEADY + DROPPED)):
        long.add(session, {number: value})
        long.add(session, {number: value}, series_id=long.OTHER, place=1)
        session.commit()
        pipeline.look(database, daily=0)
    assert pending.pending_series(session).notes == ()
    assert session.scalar(select(func.count()).select_from(FindingRow)) == 1


@pytest.mark.both_databases
def test_a_finding_stands_while_its_series_cannot_be_analysed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(noisy(STEADY + DROPPED))))
    (opened,) = pipeline.look(database, daily=0).opened
    with database.writing() as session:
        long.add(session, {len(STEADY + DROPPED): 80.0})
    with monkeypatch.context() as patched:
        patched.setattr(analysis, "analyse", broken)
        pipeline.look(database, daily=0)
    with database.reading() as session:
        assert pending.pending_series(session).notes == ()
        assert session.get_one(FindingRow, opened).state == FindingState.OPEN
        assert analysis.load_analysis(session, long.SERIES).warnings[0].kind == "analysis_failed"


@pytest.mark.parametrize(
    ("step", "done"), [("_news", 0), ("_news", 1), ("compare_nodes", 0), ("conclude", 0)]
)
def test_what_a_process_leaves_when_it_ends_the_next_one_analyses(
    database: Database, monkeypatch: pytest.MonkeyPatch, step: str, done: int
) -> None:
    """It ends before a step, which was ``done`` so many times."""

    class Ended(BaseException):
        pass

    went_on, calls = getattr(pipeline, step), iter(range(done))

    def ends(*arguments: Any) -> Any:
        if next(calls, None) is None:
            raise Ended
        return went_on(*arguments)

    with database.writing() as session:
        long.prepare(session)
        for series, place in ((long.SERIES, 0), (long.OTHER, 1)):
            values = dict(enumerate(noisy(STEADY + DROPPED)))
            long.add(session, values, series_id=series, place=place)
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, step, ends)
        with pytest.raises(Ended):
            pipeline.look(database, daily=0)
    with database.reading() as session:
        assert pending.pending_series(session).notes
    assert pipeline.look(database, daily=0).opened
