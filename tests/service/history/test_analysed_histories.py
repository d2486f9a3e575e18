"""Histories are analysed point by point, and end as if they had been analysed whole."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import numpy as np
import pytest
from builders import long_series as long
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from service.analysis.detection.windows import Detection, detect
from service.analysis.statement import Statement
from service.database.session import Database
from service.findings import pipeline
from service.history import analysis, exclusions, pending, series_history
from service.history.description import describe
from service.history.queries import load_series
from service.history.series_history import RecentPoints
from service.models import (
    AnalysisRow,
    ConfirmationRow,
    ConfirmationState,
    PendingAnalysis,
    Point,
    SettledWindow,
)
from service.schemas.errors import DatabaseUnavailable
from service.wording.statements import say

LENGTH = 700
"""Three settled windows and a newest one."""


def values_of(seed: int, length: int = LENGTH) -> np.ndarray:
    """Noise of one per cent with three steps."""
    random = np.random.default_rng(seed)
    level = np.zeros(length)
    for at in sorted(random.choice(np.arange(30, length - 30), 3, replace=False)):
        level[at:] += random.choice([-0.05, 0.04, 0.08])
    return 100 * np.exp(level + random.normal(0, 0.01, length))


def analyse_all(session: Session) -> series_history.SeriesAnalysis:
    """Analyse whatever waits, as the service does, until nothing does."""
    while (due := pending.pending_series(session)).notes:
        for series_id, since in due.since.items():
            long.analyse(session, series_id, since)
        pending.clear_pending(session, due.notes)
    return analysis.load_analysis(session, long.SERIES)


def analysed_whole(session: Session) -> series_history.SeriesAnalysis:
    """Forget what is known and analyse everything at once."""
    session.execute(delete(SettledWindow))
    session.execute(delete(AnalysisRow))
    session.expire_all()
    long.analyse(session, long.SERIES, long.START - timedelta(days=1))
    return analysis.load_analysis(session, long.SERIES)


def plain(session: Session) -> tuple[int, ...]:
    """Where the detector itself finds changes, given the whole history."""
    rows = session.scalars(
        select(Point)
        .where(Point.excluded.is_(False), Point.disturbed == "")
        .order_by(Point.revision_at)
    ).all()
    points = [
        series_history.RecentPoint(
            row.result_id, row.revision, row.revision_at, row.value, row.worker, row.measured_at
        )
        for row in rows
    ]
    series = analysis.load_history(session, long.SERIES).recent
    history = RecentPoints(long.SERIES, series.direction, 0, tuple(points)).history
    return tuple(change.index for change in detect(history).change_points)


def test_points_that_come_one_by_one_are_analysed_as_the_whole(database: Database) -> None:
    values = values_of(1)
    with database.writing() as session:
        long.prepare(session)
        for batch in np.array_split(np.arange(LENGTH), 19):
            long.add(session, {int(n): float(values[n]) for n in batch})
            stepwise = analyse_all(session)
        assert stepwise.points == LENGTH
        assert [change.change.index for change in stepwise.changes] == list(plain(session))
        assert len(stepwise.changes) >= 2
        assert analysed_whole(session) == stepwise
        for change in stepwise.changes:
            first_bad, last_good = int(change.first_bad[1:]), int(change.last_good[1:])
            assert first_bad == last_good + 1
            assert abs(first_bad - change.change.index) <= 3


def confirm(session: Session, at: int, after: float) -> None:
    """Confirm beside each other that the point at ``at`` began a change from 300."""
    row = ConfirmationRow(
        id=f"{at:032x}",
        series_id=long.SERIES,
        case_key="case",
        last_good=long.revision_of(at - 1),
        first_bad=long.revision_of(at),
        first_bad_at=long.placed_at(at),
        first_bad_result=long.result_of(at),
        worker="w",
        before=300.0,
        after=after,
        usual={},
        change_id=None,
        state=ConfirmationState.CONFIRMED,
        comparisons=[],
        reading=None,
        says=Statement.of(
            "differ_again", worker="w", pairs=5, first_bad="b", last_good="a"
        ).stored(),
        created_at=long.START,
        decided_at=long.START,
    )
    session.add(row)
    pending.mark_pending(session, long.START, row.first_bad, row.first_bad_at, row.first_bad_result)
    session.flush()


@pytest.mark.parametrize("back", [2, 6])
def test_what_was_confirmed_beside_each_other_binds_the_history(
    database: Database, back: int
) -> None:
    levels = np.repeat([300.0, 285.0, 300.0, 285.0], [284, 8, back, 420])
    values = levels * np.exp(np.random.default_rng(back).normal(0, 0.003, len(levels)))
    first, second = 284, 292 + back
    with database.writing() as session:
        long.prepare(session)
        begun = {int(n): float(values[n]) for n in range(second + 1)}
        long.add(session, begun)
        analyse_all(session)
        confirm(session, first, 285.0)
        confirm(session, second, 285.0)
        assert places(analyse_all(session)) == [first, first + 8, second]
        for batch in np.array_split(np.arange(second + 1, len(values)), 5):
            long.add(session, {int(n): float(values[n]) for n in batch})
            stepwise = analyse_all(session)
        assert places(stepwise) == [first, first + 8, second]
        assert analysed_whole(session) == stepwise


def places(analysed: series_history.SeriesAnalysis) -> list[int]:
    return [change.change.index for change in analysed.changes]


@pytest.mark.parametrize("seed", [2, 3])
def test_the_order_of_arrival_changes_nothing(database: Database, seed: int) -> None:
    values = values_of(seed)
    order = np.random.default_rng(seed).permutation(LENGTH)
    with database.writing() as session:
        long.prepare(session, ["w", "v"])
        for batch in np.array_split(order, 9):
            for worker, rest in (("w", 0), ("v", 1)):
                some = {int(n): float(values[n]) for n in batch if n % 2 == rest}
                long.add(session, some, worker)
            shuffled = analyse_all(session)
        assert [change.change.index for change in shuffled.changes] == list(plain(session))
        assert analysed_whole(session) == shuffled


@pytest.mark.both_databases(slow="postgresql")
def test_a_new_point_costs_one_window_however_long_the_past_is(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = values_of(4, 1_500)
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {n: float(values[n]) for n in range(1_499)})
        analyse_all(session)
        settled = session.scalar(select(func.count()).select_from(SettledWindow))
        assert settled == 7
        tail = analysis.load_history(session, long.SERIES).recent
        assert tail.first == 7 * 192 - 96
        assert tail.first + len(tail.points) == 1_499
        long.add(session, {1_499: float(values[1_499])})
        (row,) = session.scalars(select(SettledWindow).where(SettledWindow.number == 6))
        session.expunge(row)
        analyse_all(session)
        (again,) = session.scalars(select(SettledWindow).where(SettledWindow.number == 6))
        assert again is not row
        assert (again.next_from, again.changes) == (row.next_from, row.changes)


@pytest.mark.both_databases
def test_a_late_point_leaves_the_windows_before_it_alone(database: Database) -> None:
    values = values_of(5)
    late = 500
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {n: float(values[n]) for n in range(LENGTH) if n != late})
        analyse_all(session)
        session.execute(
            SettledWindow.__table__.update()
            .where(SettledWindow.number == 0)
            .values(changes=[])  # a mark that analysis this window again would wipe out
        )
        session.expire_all()
        long.add(session, {late: float(values[late])})
        analyse_all(session)
        first = session.get_one(SettledWindow, (long.SERIES, 0))
        assert first.changes == []
        assert analysis.load_analysis(session, long.SERIES).points == LENGTH


@pytest.mark.both_databases
@pytest.mark.parametrize("seed", [8, 9])
def test_points_of_a_disturbed_device_are_analysed_by_nobody_in_any_order(
    database: Database, seed: int
) -> None:
    """A fifth of the points, some at the end of a window, are 20 % too low."""
    values = values_of(seed)
    random = np.random.default_rng(seed)
    low = {int(n) for n in random.choice(LENGTH, LENGTH // 5, replace=False)} | {191, 192, 287}
    with database.writing() as session:
        long.prepare(session)
        for batch in np.array_split(random.permutation(LENGTH), 9):
            some = {int(n): float(values[n]) for n in batch}
            long.add(session, {n: value for n, value in some.items() if n not in low})
            held = {n: 0.8 * value for n, value in some.items() if n in low}
            long.add(session, held, disturbed="throttled, other_processes")
            stepwise = analyse_all(session)
        assert stepwise.points == LENGTH - len(low)
        assert [change.change.index for change in stepwise.changes] == list(plain(session))
        assert len(stepwise.changes) >= 2
        assert not {int(change.first_bad[1:]) for change in stepwise.changes} & low
        assert analysed_whole(session) == stepwise


def test_a_series_of_disturbed_points_alone_says_so_and_nothing_else(database: Database) -> None:
    with database.writing() as session:
        long.prepare(session)
        steps = [100.0] * 20 + [80.0] * 20
        long.add(session, dict(enumerate(steps)), disturbed="throttled")
        analysed = analyse_all(session)
        assert (analysed.points, analysed.changes, analysed.noise) == (0, (), None)
        view = describe(session, load_series(session, long.SERIES))
        assert view.disturbed == 40
        assert view.warnings[-1] == (
            "40 of 40 points were measured on a disturbed device (throttled) and are shown, and "
            "not analysed."
        )
    assert not pipeline.look(database).opened


def test_an_excluded_result_is_analysed_no_more_until_it_is_put_back(database: Database) -> None:
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {n: 100.0 + n % 3 for n in range(20)})
        before = analyse_all(session)
        exclusions.exclude(session, long.result_of(7), "the fan was broken", "ada", long.START)
        without = analyse_all(session)
        assert (without.points, before.points) == (19, 20)
        exclusions.include(session, long.result_of(7), "ada", long.START)
        assert analyse_all(session).points == 20
        (exclusion,) = exclusions.exclusions_of(session, long.result_of(7))
        assert (exclusion.reason, exclusion.undone_by) == ("the fan was broken", "ada")


@pytest.mark.both_databases
def test_values_that_cannot_be_analysed_are_said_to_be_so(database: Database) -> None:
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict.fromkeys(range(12), 1.0))
        session.execute(update(Point).values(value=1e200))  # no contract takes such a value
        analysed = analyse_all(session)
        assert analysed.changes == ()
        assert "cannot be analysed" in say(analysed.warnings[0])
        assert session.scalar(select(func.count()).select_from(PendingAnalysis)) == 0


def test_a_large_step_is_placed_at_its_edge_from_the_start(database: Database) -> None:
    noise = np.exp(np.random.default_rng(1).normal(0, 0.003, 60))
    with database.writing() as session:
        long.prepare(session)
        for number in range(60):
            level = 80.0 if number >= 40 else 100.0
            long.add(session, {number: float(level * noise[number])})
            for change in analyse_all(session).changes:
                assert (change.last_good, change.first_bad) == (
                    long.revision_of(39),
                    long.revision_of(40),
                )
        assert len(analyse_all(session).changes) == 1


EARLIER, NOW, LATER = (long.START + timedelta(days=days) for days in (-1, 1, 2))


def add_twelve(database: Database) -> None:
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {n: 100.0 + n % 3 for n in range(12)})


def weighed(database: Database) -> tuple[analysis.AnalysisInput, Detection]:
    with database.reading() as session:
        points = analysis.read(session, long.SERIES, EARLIER)
    return points, analysis.analyse(points)


def store(
    database: Database, result: tuple[analysis.AnalysisInput, Detection], now: datetime
) -> int:
    """Store what was weighed; how many points are analysed then."""
    with database.writing() as session:
        analysis.store(session, *result, now)
    with database.reading() as session:
        return analysis.load_analysis(session, long.SERIES).points


@pytest.mark.both_databases
@pytest.mark.parametrize("analysed_before", [False, True])
def test_who_has_read_fewer_points_analyses_again(
    database: Database, analysed_before: bool
) -> None:
    """Two services analyse one series; the slower one stores what it read first."""
    add_twelve(database)
    if analysed_before:
        assert store(database, weighed(database), EARLIER) == 12
    first = weighed(database)
    with database.writing() as session:
        long.add(session, {12: 101.0})
    assert store(database, weighed(database), NOW) == 13
    assert store(database, first, LATER) == 13


@pytest.mark.both_databases
def test_a_point_that_was_taken_out_meanwhile_does_not_come_back(database: Database) -> None:
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {0: 100.0})
    first = weighed(database)
    with database.writing() as session:
        session.execute(update(Point).values(excluded=True))
    assert store(database, weighed(database), NOW) == 0
    assert store(database, first, LATER) == 0


def test_what_nobody_has_stored_in_between_is_not_analysed_twice(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_twelve(database)
    first = weighed(database)
    monkeypatch.delattr("service.history.analysis.analyse")
    assert store(database, first, NOW) == 12


def test_a_database_that_is_busy_does_not_unmake_what_was_analysed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_twelve(database)
    pipeline.look(database, daily=0)
    with database.writing() as session:
        long.add(session, {12: 101.0})

    def busy(*_: object) -> None:
        raise DatabaseUnavailable("somebody else writes")

    with monkeypatch.context() as patched:
        patched.setattr(analysis, "store", busy)
        with pytest.raises(DatabaseUnavailable):
            pipeline.look(database, daily=0)
    with database.reading() as session:
        assert analysis.load_analysis(session, long.SERIES).points == 12
    pipeline.look(database, daily=0)
    with database.reading() as session:
        assert analysis.load_analysis(session, long.SERIES).points == 13


@pytest.mark.both_databases
def test_groups_that_overlap_are_stored_one_after_the_other(database: Database) -> None:
    """Three services analyse the same new series at once, each in another order."""
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {n: 100.0 + n % 3 for n in range(12)})
        long.add(session, {n: 50.0 + n % 2 for n in range(12)}, series_id=long.OTHER, place=1)

    def stored(order: int) -> None:
        series = [long.SERIES, long.OTHER][::order]
        with database.reading() as session:
            rows = analysis.load_rows(session, series)
            inputs = [analysis.read(session, one, EARLIER, rows[one]) for one in series]
        with database.writing() as session:
            locked = analysis.lock(session, series, NOW)
            for points in inputs:
                own = locked[points.tail.series_id]
                analysis.store(session, points, analysis.analyse(points), NOW, own)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(stored, (1, -1, 1)))
    with database.reading() as session:
        assert [
            analysis.load_analysis(session, one).points for one in (long.SERIES, long.OTHER)
        ] == [12, 12]
