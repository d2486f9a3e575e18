"""A verdict says no more than the intervals do."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contracts import Case, Direction, Sample
from service.analysis.summary import summarise
from service.analysis.variance import Spread, Square
from service.history.compare import Known, compare, compare_all
from service.history.types import Failure
from service.schemas.series import ChangeVerdict, Series, SeriesPoint

AT = datetime(2026, 11, 20, tzinfo=UTC)


def point(
    revision: str, value: float, half: float | None = 1.0, basis: str = "replicates"
) -> SeriesPoint:
    low, high = (None, None) if half is None else (value - half, value + half)
    return SeriesPoint("id", revision, AT, AT, value, low, high, basis, 3, "env", "w1")


def history(*points: SeriesPoint, direction: Direction = Direction.HIGHER) -> Series:
    case = Case(workload="unet", preset="tiny")
    return Series("s", case, "throughput", "img/s", direction, {}, points=points)


@pytest.mark.parametrize(
    ("before", "after", "direction", "verdict"),
    [
        (point("a", 100), point("b", 110), Direction.HIGHER, ChangeVerdict.FASTER),
        (point("a", 100), point("b", 90), Direction.HIGHER, ChangeVerdict.SLOWER),
        (point("a", 100), point("b", 90), Direction.LOWER, ChangeVerdict.FASTER),
        (point("a", 100), point("b", 110), Direction.LOWER, ChangeVerdict.SLOWER),
        (point("a", 100), point("b", 101), Direction.HIGHER, ChangeVerdict.UNCLEAR),
        (point("a", 100), point("b", 100, 0.0), Direction.HIGHER, ChangeVerdict.UNCLEAR),
        (point("a", 100), point("b", 200, None, "none"), Direction.HIGHER, ChangeVerdict.UNCLEAR),
        (
            point("a", 100),
            point("b", 200, 1.0, "within_run"),
            Direction.HIGHER,
            ChangeVerdict.UNCLEAR,
        ),
        (point("a", 0.0), point("b", 1.0, 0.1), Direction.HIGHER, ChangeVerdict.UNCLEAR),
        (point("a", 100), point("c", 100), Direction.HIGHER, ChangeVerdict.MISSING),
        (point("c", 100), point("b", 100), Direction.HIGHER, ChangeVerdict.MISSING),
    ],
)
def test_a_verdict_follows_from_the_intervals(
    before: SeriesPoint, after: SeriesPoint, direction: Direction, verdict: ChangeVerdict
) -> None:
    change = compare(history(before, after, direction=direction), "a", "b")
    assert change.verdict is verdict
    assert bool(change.note) == (verdict in (ChangeVerdict.UNCLEAR, ChangeVerdict.MISSING))


GPU = {"hw.gpu.name": "H200"}
OOM = Failure(Case(workload="unet"), "b", "oom", GPU)


@pytest.mark.parametrize(
    ("failures", "note"),
    [
        ([], "No result of the contender in the history."),
        ([OOM], "No result of the contender (oom) in the history."),
        (
            [replace(OOM, status="parity_fail"), OOM],
            "No result of the contender (failed parity) in the history.",
        ),
        (
            [replace(OOM, status="infra_error", comparability={})],
            "No result of the contender (infra error) in the history.",
        ),
        (
            [replace(OOM, status="unbuildable", comparability={})],
            "No result of the contender (unbuildable) in the history.",
        ),
        (
            [replace(OOM, comparability={"hw.gpu.name": "H100"})],
            "No result of the contender in the history.",
        ),
        ([replace(OOM, revision="a")], "No result of the contender in the history."),
        (
            [replace(OOM, case=Case(workload="nanogpt"))],
            "No result of the contender in the history.",
        ),
    ],
)
def test_a_side_that_is_missing_says_why_where_it_is_known(
    failures: list[Failure], note: str
) -> None:
    series = replace(history(point("a", 100)), comparability=GPU)
    change = compare(series, "a", "b", failures)
    assert (change.verdict, change.note) == (ChangeVerdict.MISSING, note)


def test_a_side_that_was_taken_out_is_said_to_be() -> None:
    out = replace(point("b", 100), excluded=True)
    change = compare(history(point("a", 100), out), "a", "b", [OOM])
    assert (change.verdict, change.note) == (
        ChangeVerdict.MISSING, "No result of the contender (excluded) in the history.",
    )  # fmt: skip
    [absent] = compare_all([], "a", "b", "m", [Case(workload="unet")], [OOM])
    assert absent.note == "No result of the baseline and the contender (oom) in the history."


def test_a_difference_that_is_sure_and_small_is_no_change() -> None:
    before, after = point("a", 100, 0.01), point("b", 99.6, 0.01)
    change = compare(history(before, after), "a", "b")
    assert change.verdict is ChangeVerdict.UNCLEAR
    assert change.note == "Equal code differs by up to 0.5% as well; the gate can tell less apart."
    lower = compare(history(before, point("b", 99.4, 0.01)), "a", "b")
    assert lower.verdict is ChangeVerdict.SLOWER


def test_between_two_workers_a_difference_must_be_larger() -> None:
    before, after = point("a", 100, 0.01), replace(point("b", 99.2, 0.01), worker="w2")
    change = compare(history(before, after), "a", "b")
    assert change.verdict is ChangeVerdict.UNCLEAR
    assert "on two workers" in change.note
    far = replace(after, value=98.9, low=98.89, high=98.91)
    assert compare(history(before, far), "a", "b").verdict is ChangeVerdict.SLOWER


def test_a_later_run_in_one_process_does_not_unmake_a_sound_comparison() -> None:
    quick = replace(
        point("b", 104, basis="within_run"), measured_at=AT + timedelta(hours=1), replicates=1
    )
    change = compare(history(point("a", 100), point("b", 110), quick), "a", "b")
    assert change.verdict is ChangeVerdict.FASTER
    assert change.contender is not None
    assert change.contender.value == 110


def test_of_equally_many_replicates_the_latest_is_compared() -> None:
    later = replace(point("b", 90), measured_at=AT + timedelta(hours=1))
    change = compare(history(point("a", 100), later, point("b", 110)), "a", "b")
    assert change.verdict is ChangeVerdict.SLOWER


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (point("a", 0.0), point("b", 0.1), "not above zero"),
        (point("a", 0.1), point("b", 0.0), "not above zero"),
        (point("a", 100, None, "none"), point("b", 100), "its history is too short"),
        (point("a", 100, 1.0, "within_run"), point("b", 100), "one process"),
        (point("a", 1.0, 100.0), point("b", 1.0), "too wide"),
        (point("a", 100), point("b", 100), "holds zero"),
    ],
)
def test_what_is_unclear_says_the_right_reason(
    before: SeriesPoint, after: SeriesPoint, reason: str
) -> None:
    change = compare(history(before, after), "a", "b")
    assert change.verdict is ChangeVerdict.UNCLEAR
    assert reason in change.note


def single(revision: str, value: float, worker: str = "w1", processes: int = 1) -> SeriesPoint:
    """A point of one process, which says of itself that it is steady to 0.1 %; or of two."""
    basis = "replicates" if processes > 1 else "within_run"
    measured = point(revision, value, 0.001 * value, basis)
    return replace(measured, replicates=processes, worker=worker)


def known(
    deviation: float,
    processes: float = 1.0,
    process: float | None = None,
    node: float | None = None,
) -> Known:
    """A history whose nights differ by ``deviation``: what is known of processes and nodes too."""
    squares = [None if one is None else Square(one**2, 29) for one in (process, deviation, node)]
    return Known({"s": Spread(100.0, 30, 1.0, processes, 1.0, None, *squares)})


@pytest.mark.parametrize("value", [86.0, 95.1, 99.9, 104.0])
def test_one_process_a_side_without_a_history_decides_nothing_and_says_what_would(
    value: float,
) -> None:
    change = compare(history(single("a", 100.0), single("b", value)), "a", "b")
    assert (change.verdict, change.undecided) == (ChangeVerdict.UNCLEAR, True)
    assert (change.change_low, change.change_high) == (None, None), "it knows of no interval"
    assert "measure 3 processes a side (--replicates 3)" in change.note


@pytest.mark.parametrize(
    ("value", "deviation", "verdict", "undecided"),
    [
        (86.0, 0.01, ChangeVerdict.SLOWER, False),
        (95.1, 0.003, ChangeVerdict.SLOWER, False),
        (104.0, 0.003, ChangeVerdict.FASTER, False),
        (95.1, 0.05, ChangeVerdict.UNCLEAR, False),
        (99.9, 0.003, ChangeVerdict.UNCLEAR, False),
        (96.9, 0.0105, ChangeVerdict.UNCLEAR, True),
        (103.2, 0.0105, ChangeVerdict.UNCLEAR, False),
    ],
)
def test_one_process_a_side_is_held_against_the_noise_of_its_history(
    value: float, deviation: float, verdict: ChangeVerdict, undecided: bool
) -> None:
    points = history(single("a", 100.0), single("b", value))
    change = compare(points, "a", "b", known=known(deviation))
    assert (change.verdict, change.undecided) == (verdict, undecided)
    assert change.change_low is not None
    assert ("equal runs of its history" in change.note) == (
        verdict is not ChangeVerdict.UNCLEAR or "likely" in change.note
    )


def test_a_history_of_more_processes_is_quieter_than_one_process() -> None:
    points = history(single("a", 100.0), single("b", 99.0))
    one = compare(points, "a", "b", known=known(0.002))
    three = compare(points, "a", "b", known=known(0.002, processes=3.0))
    assert one.change_low is not None
    assert three.change_low is not None
    assert three.change_low < one.change_low
    assert (one.verdict, three.verdict) == (ChangeVerdict.SLOWER, ChangeVerdict.UNCLEAR)


def test_what_two_workers_differ_by_widens_the_interval_or_is_said_to_be_left_out() -> None:
    points = history(single("a", 100.0), single("b", 97.0, worker="w2"))
    plain, nodes = (compare(points, "a", "b", known=known(0.003, node=n)) for n in (None, 0.02))
    assert (plain.verdict, plain.left_out) == (ChangeVerdict.SLOWER, "node")
    assert (nodes.verdict, nodes.left_out) == (ChangeVerdict.UNCLEAR, "")


def test_two_processes_a_side_lean_on_the_history_where_there_is_one() -> None:
    wide = [replace(single(name, value, processes=2), low=value - 20, high=value + 20)
            for name, value in (("a", 100.0), ("b", 86.0))]  # fmt: skip
    alone = compare(history(*wide), "a", "b")
    assert (alone.verdict, alone.undecided) == (ChangeVerdict.UNCLEAR, True)
    assert "measure 3 processes a side" in alone.note
    assert compare(history(*wide), "a", "b", known=known(0.003)).verdict is ChangeVerdict.SLOWER


def test_three_processes_a_side_do_not_say_how_nights_differ() -> None:
    before, after = point("a", 100.0, 0.1), point("b", 98.0, 0.1)
    later = replace(after, measured_at=AT + timedelta(days=1))
    restless = known(0.02, processes=3, process=0.0005)
    one_night = compare(history(before, after), "a", "b", known=restless)
    assert (one_night.verdict, one_night.left_out) == (ChangeVerdict.SLOWER, "")
    two_nights = compare(history(before, later), "a", "b", known=restless)
    assert (two_nights.verdict, two_nights.left_out) == (ChangeVerdict.UNCLEAR, "")
    unknown = compare(history(before, later), "a", "b")
    assert (unknown.verdict, unknown.left_out) == (ChangeVerdict.SLOWER, "night")


def test_three_noisy_processes_a_side_are_not_called_calm_by_their_history() -> None:
    points = history(point("a", 100.0, 3.0), point("b", 98.0, 3.0))
    calm = known(0.0005, processes=3, process=0.0005)
    assert compare(points, "a", "b", known=calm).verdict is ChangeVerdict.UNCLEAR


def test_equal_runs_are_seldom_called_different_by_the_noise_of_a_history() -> None:
    random = np.random.default_rng(5)
    called = 0
    for _ in range(4_000):
        before, after = 100 * np.exp(random.normal(0, 0.01, 2))
        points = history(single("a", float(before)), single("b", float(after)))
        change = compare(points, "a", "b", known=known(0.01))
        called += change.verdict is not ChangeVerdict.UNCLEAR
    assert called / 4_000 < 1 / 80


def test_two_names_for_one_code_are_neither_faster_nor_slower() -> None:
    before, after = point("a", 100.0, 0.1), replace(point("b", 80.0, 0.1), environment="other")
    one_code = {"env": "one", "other": "one"}
    change = compare(history(before, after), "a", "b", known=Known(code=one_code))
    assert (change.verdict, change.undecided) == (ChangeVerdict.UNCLEAR, True)
    assert "ran the same code and software, so nothing was compared" in change.note
    for code in ({}, {"env": "one"}, {"env": "one", "other": "two"}):
        told_apart = compare(history(before, after), "a", "b", known=Known(code=code))
        assert told_apart.verdict is ChangeVerdict.SLOWER


def test_the_interval_is_that_of_the_delta_method() -> None:
    change = compare(history(point("a", 100, 3.0), point("b", 120, 4.8)), "a", "b")
    spread = math.hypot(0.03, 0.04)
    assert change.change == pytest.approx(0.2)
    assert change.change_low == pytest.approx(1.2 * math.exp(-spread) - 1)
    assert change.change_high == pytest.approx(1.2 * math.exp(spread) - 1)


def test_a_case_that_nobody_measured_is_missing_and_not_left_out() -> None:
    cases = [Case(workload="unet"), Case(workload="nanogpt")]
    changes = compare_all([history(point("a", 1.0), point("b", 1.0))], "a", "b", "m", cases)
    assert [(one.case.workload, one.verdict) for one in changes] == [
        ("unet", ChangeVerdict.UNCLEAR),
        ("nanogpt", ChangeVerdict.MISSING),
    ]


positive = st.floats(1e-3, 1e6)


@given(before=positive, after=positive, relative=st.floats(0, 1))
def test_a_change_lies_in_its_interval_and_agrees_with_its_verdict(
    before: float, after: float, relative: float
) -> None:
    change = compare(
        history(point("a", before, before * relative), point("b", after, after * relative)),
        "a",
        "b",
    )
    assert change.change is not None
    assert change.change_low is not None
    assert change.change_high is not None
    assert change.change_low <= change.change <= change.change_high
    if change.verdict is ChangeVerdict.FASTER:
        assert after > before
    if change.verdict is ChangeVerdict.SLOWER:
        assert after < before


def sample(*values: float, half_widths: tuple[float, ...] | None = None) -> Sample:
    return Sample(
        metric="m", unit="s", direction=Direction.LOWER, values=values, half_widths=half_widths
    )


def test_replicates_give_students_interval() -> None:
    summary = summarise(sample(9.0, 10.0, 11.0))
    assert (summary.value, summary.interval, summary.replicates) == (10.0, "replicates", 3)
    assert summary.high == pytest.approx(10 + 4.302652729911275 / math.sqrt(3))


def test_one_replicate_gives_the_interval_within_the_run_and_says_so() -> None:
    summary = summarise(sample(10.0, half_widths=(0.5,)))
    assert (summary.low, summary.high, summary.interval) == (9.5, 10.5, "within_run")


def test_one_value_alone_gives_no_interval() -> None:
    summary = summarise(sample(10.0))
    assert (summary.low, summary.high, summary.interval) == (None, None, "none")


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=50))
def test_a_summary_is_finite_whatever_was_measured(values: list[float]) -> None:
    summary = summarise(sample(*values))
    assert math.isfinite(summary.value)
    if summary.low is not None and summary.high is not None:
        assert math.isfinite(summary.low)
        assert summary.low <= summary.value <= summary.high
