"""Which revision a change is put at, and which levels are told, where single points mislead."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from builders import long_series as long
from sqlalchemy.orm import Session

from service.database.session import Database
from service.findings import rules
from service.history import analysis, series_history

DEVIATION = 0.003
AT = 40
"""Number of the first point of the new level, unless a test says otherwise."""
ValueAt = Callable[[int, str], float]
"""What a worker measures at a revision, without noise."""


def analysed(
    session: Session,
    value: ValueAt,
    workers: Sequence[str] = ("w",),
    count: int = 60,
    seed: int = 4,
) -> series_history.SeriesAnalysis:
    """A series whose points come from workers as chance has it, analysed as a whole."""
    random = np.random.default_rng(seed)
    long.prepare(session, workers)
    for number in range(count):
        worker = workers[int(random.integers(len(workers)))]
        noise = float(np.exp(random.normal(0, DEVIATION)))
        long.add(session, {number: value(number, worker) * noise}, worker)
    long.analyse(session, long.SERIES, long.START)
    return analysis.load_analysis(session, long.SERIES)


def only(analysis: series_history.SeriesAnalysis) -> series_history.PlacedChange:
    (change,) = analysis.changes
    return change


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("slower", [0.02, 0.04])
def test_a_slower_worker_moves_no_change_to_another_revision(
    database: Database, slower: float, seed: int
) -> None:
    def value(number: int, worker: str) -> float:
        return 100 * (1 - slower if worker == "y" else 1) * (0.97 if number >= AT else 1)

    with database.writing() as session:
        change = only(analysed(session, value, ("x", "y"), seed=seed))
    assert change.last_good == long.revision_of(AT - 1)
    assert change.first_bad == long.revision_of(AT)


@pytest.mark.parametrize("slope", [-0.001, 0.001])
def test_a_change_of_what_drifts_is_told_where_it_is_with_the_levels_there(
    database: Database, slope: float
) -> None:
    at = 100

    def value(number: int, _: str) -> float:
        return float(100 * np.exp(slope * number) * (0.95 if number >= at else 1))

    with database.writing() as session:
        analysis = analysed(session, value, count=at + 12)
    change = only(analysis)
    assert analysis.noise is not None
    assert analysis.noise.drift_per_point == pytest.approx(slope, rel=0.2)
    assert change.first_bad == long.revision_of(at)
    assert change.change.before == pytest.approx(100 * np.exp(slope * at), rel=0.004)
    assert change.change.after == pytest.approx(95 * np.exp(slope * at), rel=0.004)


@pytest.mark.parametrize("slope", [-0.001, 0.001])
def test_what_drifts_meanwhile_hides_no_recovery_and_makes_it_no_news(
    database: Database, slope: float
) -> None:
    def value(number: int, _: str) -> float:
        return float(100 * np.exp(slope * number) * (0.95 if 80 <= number < 130 else 1))

    with database.writing() as session:
        analysed(session, value, count=160)
        history = analysis.load_history(session, long.SERIES)
    fell, rose = history.analysis.changes
    assert rules.recovery(history, fell, {}) == rose
    assert rules.only_ends(history.analysis, fell, rose)
    slow = {point.worker: [(rose.first_bad_at, None)] for point in history.recent.points}
    assert rules.recovery(history, fell, slow) is None


def test_of_two_modes_neither_is_taken_for_the_other_level(database: Database) -> None:
    """The lower mode of the old level lies nearer to the new one than to its own."""
    at = 100
    modes = np.random.default_rng(3).random(200) < 0.4

    def value(number: int, _: str) -> float:
        return 100 * (0.97 if modes[number] else 1) * (0.95 if number >= at else 1)

    with database.writing() as session:
        analysis = analysed(session, value, count=130)
    assert analysis.noise is not None
    assert analysis.noise.mode_distance == pytest.approx(0.03, rel=0.2)
    assert only(analysis).first_bad == long.revision_of(at)
