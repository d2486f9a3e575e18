"""Which points are measured again, and between which revisions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from builders import long_series as long
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from service.database.session import Database, now_of
from service.findings import confirm, pipeline
from service.findings.candidate_changes import candidates
from service.findings.confirm import Suspicion, begin
from service.findings.pipeline import follow_series
from service.findings.rules import AlreadyReported
from service.history.analysis import Histories
from service.history.series_history import SeriesHistory, between
from service.models import ComparisonRow, ConfirmationRow, WorkerRow

STEADY = 20


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    """Twenty revisions that were measured twice each, on a worker that is there."""
    random = np.random.default_rng(4)
    with database.writing() as session:
        long.prepare(session)
        session.execute(update(WorkerRow).values(last_seen_at=now_of(session)))
        for number in range(STEADY):
            add(session, number, [float(100.0 * np.exp(random.normal(0, 0.01))) for _ in range(2)])
        yield session


def add(session: Session, number: int, values: Sequence[float]) -> None:
    """Results of one revision, one after another."""
    for place, value in enumerate(values):
        long.add(session, {number: value}, place=place, minutes=place)


def suspicious(session: Session, since: int) -> list[Suspicion]:
    long.analyse(session, long.SERIES, long.START)
    followed = follow_series(session, long.SERIES, {}, now_of(session))
    return list(followed.with_suspicions(long.placed_at(since), {}).suspicious)


def test_a_low_result_of_the_last_good_revision_does_not_make_it_the_bad_one(
    session: Session,
) -> None:
    add(session, STEADY, [100.0, 97.3])
    add(session, STEADY + 1, [95.0])
    (suspicion,) = suspicious(session, STEADY + 1)
    assert suspicion.last_good == long.revision_of(STEADY)
    assert suspicion.first_bad == long.revision_of(STEADY + 1)


def test_a_whole_revision_that_was_low_before_the_surprise_is_the_bad_one(
    session: Session,
) -> None:
    add(session, STEADY, [97.3, 97.2])
    add(session, STEADY + 1, [95.0])
    (suspicion,) = suspicious(session, STEADY + 1)
    assert suspicion.last_good == long.revision_of(STEADY - 1)
    assert suspicion.first_bad == long.revision_of(STEADY)


@pytest.mark.parametrize("seed", range(3))
def test_which_worker_happened_to_measure_makes_no_part_of_what_is_suspected(
    database: Database, seed: int
) -> None:
    """One is 4 % slower for ever, and the code becomes 3 % slower."""
    random = np.random.default_rng(seed)
    with database.writing() as session:
        long.prepare(session, ["x", "y"])
        for number in range(42):
            worker = "xy"[int(random.integers(2))]
            level = 100.0 * (0.96 if worker == "y" else 1.0) * (0.97 if number >= 40 else 1.0)
            value = float(level * np.exp(random.normal(0, 0.003)))
            long.add(session, {number: value}, worker)
        suspected = suspicious(session, 40)
    assert suspected
    for suspicion in suspected:
        assert (suspicion.last_good, suspicion.first_bad) == (
            long.revision_of(39),
            long.revision_of(40),
        )
        assert suspicion.effect == pytest.approx(-0.03, abs=0.008)


@pytest.mark.parametrize("seed", range(3))
def test_a_worker_that_moved_alone_is_suspected_of_all_that_it_moved(
    database: Database, seed: int
) -> None:
    """Of two that measure every revision, the first becomes 5 % slower."""
    random = np.random.default_rng(seed)
    with database.writing() as session:
        long.prepare(session, ["x", "y"])
        for number in range(32):
            for place, worker in enumerate("yx"):
                level = 95.0 if worker == "y" and number >= 30 else 100.0
                value = float(level * np.exp(random.normal(0, 0.003)))
                long.add(session, {number: value}, worker, place=place, minutes=place)
        suspected = suspicious(session, 30)
    assert suspected
    for suspicion in suspected:
        assert suspicion.worker == "y"
        assert suspicion.effect == pytest.approx(-0.05, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_the_worker_that_surprises_need_not_be_the_first_of_its_revision(
    database: Database, seed: int
) -> None:
    """The code becomes 1 % slower; noise hides half of it from the first worker."""
    random = np.random.default_rng(seed)
    with database.writing() as session:
        long.prepare(session, ["x", "y"])
        for number in range(31):
            levels = (99.6, 98.9) if number == 30 else (100.0, 100.0)
            noise = np.exp(random.normal(0, 0.002 if number < 30 else 0.0, 2))
            for place, worker in enumerate("xy"):
                value = float(levels[place] * noise[place])
                long.add(session, {number: value}, worker, place=place, minutes=place)
        (suspicion,) = suspicious(session, 30)
    assert suspicion.last_good == long.revision_of(29)
    assert suspicion.first_bad == long.revision_of(30)


def test_two_points_show_what_noise_hides_in_each(database: Database) -> None:
    with database.writing() as session:
        long.prepare(session)
        noise = np.random.default_rng(7).normal(0, 0.23, 27).tolist()
        for number, error in enumerate([*noise, 0.0, 0.0, 0.0]):
            long.add(session, {number: 100.0 + error})
        long.add(session, {30: 99.45})
        assert not suspicious(session, 30)
        long.add(session, {31: 99.4})
        (suspicion,) = suspicious(session, 31)
    assert suspicion.last_good == long.revision_of(29)
    assert suspicion.first_bad == long.revision_of(30)


@pytest.mark.both_databases
def test_no_revision_is_compared_with_itself(session: Session) -> None:
    add(session, STEADY, [100.0, 97.3])
    add(session, STEADY + 1, [95.0])
    (suspicion,) = suspicious(session, STEADY + 1)
    itself = replace(suspicion, last_good=suspicion.first_bad)
    assert begin(session, [itself], now_of(session), 20) == []
    assert session.scalar(select(func.count()).select_from(ConfirmationRow)) == 0
    assert begin(session, [suspicion], now_of(session), 20)


def test_a_suspicion_that_cannot_be_formed_costs_no_finding(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OverflowError("math range error")

    monkeypatch.setattr(confirm, "suspicions", broken)
    random = np.random.default_rng(1)
    with database.writing() as session:
        long.prepare(session)
        noise = np.exp(random.normal(0, 0.003, 32))
        levels = np.array([100.0] * 20 + [95.0] * 12) * noise
        long.add(session, {number: float(value) for number, value in enumerate(levels)})
    assert pipeline.look(database).opened


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("revisions", "measured"),
    [
        (None, ("good", "bad")),
        (["good", "bad"], ("good", "bad")),
        ([], ("bad", "bad")),
        (["bad"], ("bad", "bad")),
        (["good"], None),
    ],
)
def test_a_suspicion_is_measured_again_with_the_code_that_a_worker_has(
    session: Session, revisions: list[str] | None, measured: tuple[str, str] | None
) -> None:
    """One code under two names would confirm and clear what it knows nothing of."""
    add(session, STEADY, [95.0, 95.1])
    names = {"good": long.revision_of(STEADY - 1), "bad": long.revision_of(STEADY)}
    has = None if revisions is None else [names[revision] for revision in revisions]
    session.execute(update(WorkerRow).values(revisions=has))
    begun = begin(session, suspicious(session, STEADY), now_of(session), 20)
    asked = session.execute(select(ComparisonRow.baseline, ComparisonRow.contender)).all()
    assert len(begun) == len(asked) == (0 if measured is None else 1)
    if measured is not None:
        assert tuple(asked[0]) == tuple(names[revision] for revision in measured)


SLOW_FROM = 40
"""The first revision at which the worker x is slow, as the finding about it says."""


@pytest.fixture
def beside_a_bad_node(database: Database) -> Iterator[Session]:
    """The code became 5 % slower at revision 30, and x, which measures every other one, at 40."""
    with database.writing() as session:
        long.prepare(session, ["x", "y"])
        for number, noise in enumerate(long.noisy([1.0] * 42, seed=7)):
            worker = "xy"[number % 2]
            slow = worker == "x" and number >= SLOW_FROM
            level = 85.0 if slow else 95.0 if number >= 30 else 100.0
            long.add(session, {number: level * noise}, worker)
        long.analyse(session, long.SERIES, long.START)
        yield session


def test_what_a_worker_measured_while_it_was_well_counts_though_it_is_ill_now(
    beside_a_bad_node: Session,
) -> None:
    ill = {"x": [(long.placed_at(SLOW_FROM), None)]}
    series = follow_series(beside_a_bad_node, long.SERIES, ill, now_of(beside_a_bad_node))
    assert long.revision_of(30) in {one.placed.first_bad for one in series.believable}
    suspected = series.with_suspicions(long.placed_at(SLOW_FROM), ill).suspicious
    assert [one.first_bad for one in suspected] == [long.revision_of(30)]


@pytest.mark.parametrize("seed", range(3))
def test_what_a_worker_measured_while_it_was_slow_hides_no_later_change(
    database: Database, seed: int
) -> None:
    """Worker x is 5 % slower for five revisions; fifteen later the code becomes 1 % slower."""
    random = np.random.default_rng(seed)
    with database.writing() as session:
        long.prepare(session, ["x", "y"])
        for number in range(SLOW_FROM + 1):
            code = 98.9 if number == SLOW_FROM else 100.0
            noise = np.exp(random.normal(0, 0.002 if number < SLOW_FROM else 0.0, 2))
            for place, worker in enumerate("xy"):
                slow = 0.95 if worker == "x" and 20 <= number < 25 else 1.0
                value = float(code * slow * noise[place])
                long.add(session, {number: value}, worker, place=place, minutes=place)
        long.analyse(session, long.SERIES, long.START)
        ill = {"x": [(long.placed_at(20), long.placed_at(25))]}
        series = follow_series(session, long.SERIES, ill, now_of(session))
        suspected = series.with_suspicions(long.placed_at(SLOW_FROM), ill).suspicious
    assert [one.first_bad for one in suspected] == [long.revision_of(SLOW_FROM)]


def quiet(number: int, place: int) -> float:
    """Noise of 0.2 % at most, the same at each run."""
    return 1.0 + 0.001 * ((7 * number + 3 * place) % 5 - 2)


def measured(
    session: Session, last: int, workers: str, value: Callable[[int, str], float]
) -> SeriesHistory:
    """Give a history in which the ``workers`` measure each revision in turn, up to ``last``.

    ``value`` gives what a worker measures of a revision, but for the noise.
    """
    long.prepare(session, list(workers))
    for number in range(last + 1):
        for place, worker in enumerate(workers):
            noisy = value(number, worker) * quiet(number, place)
            long.add(session, {number: noisy}, worker, place=place, minutes=place)
    long.analyse(session, long.SERIES, long.START)
    return Histories(session).of(long.SERIES)


@pytest.mark.parametrize("last", range(27, 32))
@pytest.mark.parametrize("reported", [False, True])
def test_what_changed_while_a_worker_was_slow_ends_the_level_of_all(
    database: Database, last: int, *, reported: bool
) -> None:
    """Worker x is 5 % slower for five revisions; within them the code becomes 3 % slower.

    Nothing else happens, until at the last revision the code becomes 4 % slower.
    """

    def value(number: int, worker: str) -> float:
        code = (0.97 if number >= 22 else 1.0) * (0.96 if number == last else 1.0)
        return 100.0 * code * (0.95 if worker == "x" and 20 <= number < 25 else 1.0)

    with database.writing() as session:
        history = measured(session, last, "xy", value)
    ill = {"x": [(long.placed_at(20), long.placed_at(25))]}
    changes = frozenset(change.id for change in history.analysis.changes if reported)
    covered = AlreadyReported(changes=changes)
    suspected = confirm.suspicions(history, long.placed_at(last), covered, ill)
    earlier = [] if reported else [(long.revision_of(21), long.revision_of(22))]
    newest = long.revision_of(last - 1), long.revision_of(last)
    assert [(one.last_good, one.first_bad) for one in suspected] == [*earlier, newest]
    usual = suspected[-1].usual
    assert [usual.at(worker) for worker in "xy"] == pytest.approx([97.0, 97.0], rel=0.002)
    assert suspected[-1].effect == pytest.approx(-0.04, abs=0.003)


@pytest.mark.parametrize("last", [25, 30])
def test_a_small_change_of_the_code_beside_a_much_slower_worker_is_suspicious(
    database: Database, last: int
) -> None:
    """From revision 20 on the code is 1.5 % slower, and worker x is 10 % slower besides.

    The change lies at the first slow point of x, after that of y.
    """

    def value(number: int, worker: str) -> float:
        slow = 0.9 if worker == "x" and number >= 20 else 1.0
        return 100.0 * slow * (0.985 if number >= 20 else 1.0)

    with database.writing() as session:
        history = measured(session, last, "yx", value)
    change = history.analysis.changes[0].change
    change = replace(change, index=41, effect=-0.064, before=100.0, after=93.6)
    of_x = between(history.recent, change, 41)
    history = replace(history, analysis=replace(history.analysis, changes=(of_x,)))
    ill = {"x": [(long.placed_at(20), None)]}
    suspected = confirm.suspicions(history, long.START, AlreadyReported(), ill)
    assert (long.revision_of(19), long.revision_of(20)) in [
        (one.last_good, one.first_bad) for one in suspected
    ]


def test_a_worker_that_was_slow_long_ago_makes_no_later_change_doubtful(
    database: Database,
) -> None:
    """The first point at the new level happens to lie near the old one."""

    def value(number: int, worker: str) -> float:
        slow = 0.95 if worker == "x" and 2 <= number < 5 else 1.0
        return 100.0 * slow * (1.04 if number > 36 or (number, worker) == (36, "y") else 1.0)

    with database.writing() as session:
        history = measured(session, 53, "xy", value)
        ill = {"x": [(long.placed_at(2), long.placed_at(5))]}
        found = candidates(session, history, AlreadyReported(), ill, 0.005)
    assert [one.placed.first_bad for one in found] == [long.revision_of(36)]


@pytest.mark.parametrize(("placed", "told"), [(25, False), (36, True)])
def test_a_change_where_a_slow_worker_recovered_is_none_while_the_others_stay(
    database: Database, placed: int, *, told: bool
) -> None:
    """Worker x is 5 % slower until revision 25, and the code becomes 4 % faster at 36."""

    def value(number: int, worker: str) -> float:
        slow = 0.95 if worker == "x" and 20 <= number < 25 else 1.0
        return 100.0 * slow * (1.04 if number >= 36 else 1.0)

    with database.writing() as session:
        history = measured(session, 53, "xy", value)
        change = next(one for one in history.analysis.changes if one.change.index == 72)
        at = between(history.recent, replace(change.change, index=2 * placed), 2 * placed)
        history = replace(history, analysis=replace(history.analysis, changes=(at,)))
        ill = {"x": [(long.placed_at(20), long.placed_at(25))]}
        found = candidates(session, history, AlreadyReported(), ill, 0.005)
    assert [one.placed.first_bad for one in found] == ([long.revision_of(placed)] if told else [])
