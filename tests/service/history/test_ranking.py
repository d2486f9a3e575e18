"""The best case, those as good, and what it overtook: each with a planted cause."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from builders.series import point, series

from benchmarks.contracts import Case
from service.analysis.variance import Spread, Square
from service.history.ranking import KnownOfCases, case_id, rank
from service.schemas.best import BestCase
from service.schemas.series import Series, SeriesPoint

NOW = point(40, 1.0).measured_at + timedelta(hours=1)
H200 = {"hw.gpu.name": "NVIDIA H200"}
PLAIN: dict[str, str] = {}
BF16 = {"precision": "bf16"}
COMPILED = {"precision": "bf16", "compile": "default"}


def spread(deviation: float) -> Spread:
    """Numbers of one process that vary so much from night to night, by very many nights."""
    square = Square(deviation**2, 1e6)
    return Spread(1.0, 100, 1.0, 1.0, 1.0, step=None, process=None, night=square, node=None)


def measured(
    axes: dict[str, str], values: dict[int, float], *, preset: str = "full", **more: object
) -> Series:
    """A case with one process at each of these revisions, a day apart."""
    case = Case(workload="resnet50", preset=preset, axes=axes)
    points = [lone(number, value) for number, value in sorted(values.items())]
    name = "-".join(axes.values()) or "plain"
    return series(*points, **({"id": name, "case": case} | more))


def lone(number: int, value: float, **more: object) -> SeriesPoint:
    unknown = {"low": None, "high": None, "interval": "none", "replicates": 1}
    return point(number, value, **(unknown | more))


def of(
    *found: Series,
    noise: float | None = 0.002,
    failures: dict[str, Sequence[tuple[datetime, datetime]]] | None = None,
    now: datetime = NOW,
) -> list[BestCase]:
    spreads = {} if noise is None else {one.id: spread(noise) for one in found}
    names = {one.id: case_id(one.case.key, one.project, one.comparability) for one in found}
    failed = {names[name]: places for name, places in (failures or {}).items()}
    return [one.best for one in rank(found, KnownOfCases(failed, spreads), now)]


def only(found: list[BestCase]) -> BestCase:
    (best,) = found
    return best


def nights(first: int, last: int, value: float) -> dict[int, float]:
    return dict.fromkeys(range(first, last + 1), value)


def test_the_best_is_the_fastest_of_the_newest_points_with_all_that_is_told_of_it() -> None:
    best = only(
        of(
            measured(PLAIN, {39: 100.0, 40: 100.0}),
            measured(BF16, {39: 900.0, 40: 200.0}),  # was faster, and is not now
            measured(COMPILED, {39: 250.0, 40: 400.0}),
        )
    )
    assert (best.workload, best.preset, best.unit) == ("resnet50", "full", "img/s")
    assert best.comparability == H200
    assert (best.best.case.axes, best.best.value, best.best.revision) == (COMPILED, 400.0, "r40")
    assert (best.cases, best.median, best.worst) == (3, 200.0, 100.0)
    assert best.baseline is not None
    assert best.over_baseline is not None
    assert (best.baseline.case.axes, best.over_baseline.value) == ({}, 4.0)
    assert best.as_good == []


def test_each_hardware_preset_unit_and_project_has_a_best_of_its_own() -> None:
    found = of(
        measured(PLAIN, {40: 1.0}, id="1"),
        measured(PLAIN, {40: 2.0}, id="2", comparability={"hw.gpu.name": "NVIDIA B200"}),
        measured(PLAIN, {40: 3.0}, id="3", preset="tiny"),
        measured(PLAIN, {40: 4.0}, id="4", unit="sample/s"),
        measured(PLAIN, {40: 5.0}, id="5", project="red"),
    )
    assert sorted(best.best.value for best in found) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert {best.cases for best in found} == {1}


def test_a_baseline_with_the_input_of_the_best_stands_in_for_one_without_axes() -> None:
    base, fast = {"workers": "16"}, {"workers": "16", "precision": "bf16"}
    found = [measured(base, {40: 100.0}, id="b"), measured(fast, {40: 150.0}, id="f")]
    best = only(of(*found, measured({"workers": "2"}, {40: 10.0})))
    assert best.baseline is not None
    assert best.over_baseline is not None
    assert (best.baseline.case.axes, best.over_baseline.value) == (base, 1.5)
    with_plain = only(of(*found, measured(PLAIN, {40: 50.0})))
    assert with_plain.over_baseline == best.over_baseline, "the same input goes before"
    only_plain = only(of(found[1], measured(PLAIN, {40: 50.0})))
    assert only_plain.over_baseline is not None
    assert only_plain.over_baseline.value == 3.0
    alone = only(of(measured(PLAIN, {40: 50.0})))
    assert alone.baseline == alone.best
    assert alone.over_baseline is None


def test_a_case_that_was_not_measured_for_thirty_days_is_no_longer_ranked() -> None:
    old = {9: 900.0}  # 31 days and an hour before now
    best = only(of(measured(BF16, old), measured(PLAIN, {40: 100.0})))
    assert (best.best.case.axes, best.cases) == ({}, 1)
    assert of(measured(BF16, old)) == []
    assert only(of(measured(BF16, {11: 900.0}))).best.value == 900.0


@pytest.mark.parametrize(
    ("revision", "hours", "ranked"),
    [
        (40, 1, False),  # the same revision, measured again
        (41, 0, False),  # a later revision
        (39, 5, True),  # an earlier revision that was measured again
        (40, -1, True),  # measured right since
        (40, 9, True),  # after the time that is asked about
    ],
)
def test_a_case_whose_parity_failed_since_its_newest_point_is_no_longer_ranked(
    revision: int, hours: int, ranked: bool
) -> None:
    now = NOW + timedelta(hours=5)
    newest = point(40, 1.0).measured_at
    place = point(revision, 1.0).revision_at, newest + timedelta(hours=hours)
    fast, plain = measured(BF16, {40: 900.0}), measured(PLAIN, {40: 100.0})
    best = only(of(fast, plain, failures={fast.id: [place]}, now=now))
    assert (best.best.value == 900.0) is ranked
    assert best.cases == 1 + ranked


@pytest.mark.parametrize(("noise", "as_good"), [(0.01, ["bf16"]), (0.001, [])])
def test_cases_within_the_known_noise_are_as_good(noise: float, as_good: list[str]) -> None:
    """A night of 1 % a case makes a difference of 2 % no sure one: 2.5 of sqrt(2) deviations."""
    found = [measured(COMPILED, {40: 102.0}), measured(BF16, {40: 100.0}), measured(PLAIN, {40: 9})]
    best = only(of(*found, noise=noise))
    assert [one.series_id for one in best.as_good] == as_good


def test_less_than_half_a_per_cent_and_one_across_workers_is_never_told_apart() -> None:
    fast, other = measured(COMPILED, {40: 100.8}), measured(BF16, {40: 100.0})
    assert only(of(fast, other, noise=1e-5)).as_good == []
    there = series(lone(40, 100.0, worker="x"), id="x", case=other.case)
    assert [one.series_id for one in only(of(fast, there, noise=1e-5)).as_good] == ["x"]
    near = measured(BF16, {40: 100.4})
    assert [one.series_id for one in only(of(fast, near, noise=1e-5)).as_good] == ["bf16"]


def test_where_no_noise_is_known_less_than_ten_per_cent_is_no_difference() -> None:
    found = [measured(COMPILED, {40: 100.0}), measured(BF16, {40: 92.0}), measured(PLAIN, {40: 90})]
    assert [one.series_id for one in only(of(*found, noise=None)).as_good] == ["bf16"]


def test_processes_of_one_night_do_not_tell_what_another_night_gives() -> None:
    """Three of each, within 0.1 %, and no history that tells the noise."""
    exact = {"interval": "replicates", "replicates": 3}
    old = measured(BF16, nights(1, 40, 100.0))
    case = Case(workload="resnet50", preset="full", axes=COMPILED)
    new = series(lone(40, 101.2, low=101.1, high=101.3, **exact), id="new", case=case)
    best = only(of(old, new, noise=None))
    assert best.overtaken is None
    assert [one.series_id for one in best.as_good] == ["bf16"]
    assert best.best.series_id == "new"


@pytest.mark.parametrize("size", [{"batch": "512"}, {"resolution": "32"}, {"lengths": "real"}])
def test_another_size_is_another_training_and_ranks_apart(size: dict[str, str]) -> None:
    small = measured(size, {40: 9_000.0}, id="small")
    fast = measured(size | BF16, {40: 18_000.0}, id="fast")
    found = of(measured(PLAIN, {40: 400.0}), measured(COMPILED, {40: 1_600.0}), small, fast)
    told = {tuple(best.sizes.items()): best for best in found}
    assert {sizes: best.best.value for sizes, best in told.items()} == {
        (): 1_600.0,
        tuple(size.items()): 18_000.0,
    }
    assert {best.over_baseline.value for best in found if best.over_baseline} == {4.0, 2.0}


def test_a_best_that_is_passed_is_overtaken_with_case_revision_and_interval() -> None:
    before = measured(BF16, nights(1, 40, 200.0))
    passing = measured(COMPILED, nights(1, 33, 190.0) | nights(34, 40, 220.0))
    best = only(of(before, passing, measured(PLAIN, nights(1, 40, 100.0))))
    told = best.overtaken
    assert told is not None
    assert (best.best.series_id, told.before.series_id) == (passing.id, "bf16")
    assert (told.since_revision, told.since) == ("r34", point(34, 1.0).measured_at)
    assert told.faster.value == pytest.approx(1.1)
    # Two nights of 0.2 % each: 1.96 times sqrt(2) of it, on the logarithm.
    assert (told.faster.low, told.faster.high) == pytest.approx((1.0939, 1.1061), abs=2e-4)


def test_a_best_that_became_slower_is_overtaken_too() -> None:
    regressed = measured(BF16, nights(1, 36, 200.0) | nights(37, 40, 150.0))
    best = only(of(regressed, measured(COMPILED, nights(1, 40, 190.0))))
    assert best.overtaken is not None
    assert best.overtaken.since_revision == "r37"
    assert best.overtaken.faster.value == pytest.approx(190 / 150)


@pytest.mark.parametrize(
    "why",
    ["within_noise", "noise_unknown", "long_ago", "always", "failed_parity", "not_there_before"],
)
def test_nothing_is_overtaken_where_it_is_not_sure_or_not_new(why: str) -> None:
    passing = nights(1, 33, 190.0) | nights(34, 40, 220.0)
    before = measured(BF16, nights(1, 40, 200.0))
    noise: float | None = {"within_noise": 0.05, "noise_unknown": None}.get(why, 0.002)
    if why == "long_ago":
        passing = nights(1, 20, 190.0) | nights(21, 40, 220.0)
    if why == "always":
        passing = nights(1, 40, 220.0)
    if why == "not_there_before":
        before = measured(BF16, nights(30, 40, 200.0))
    place = point(41, 1.0).revision_at, NOW
    failures = {before.id: [place]} if why == "failed_parity" else None
    best = only(of(before, measured(COMPILED, passing), noise=noise, failures=failures))
    assert best.best.value == 220.0
    assert best.overtaken is None


@pytest.mark.parametrize(("changed_at", "told"), [(5, False), (20, True)])
def test_of_a_busy_day_the_best_of_thirty_revisions_ago_is_the_one_before(
    changed_at: int, told: bool
) -> None:
    """Forty revisions, one each half hour: nothing was measured 14 days ago."""
    start = NOW - timedelta(hours=21)

    def busy(axes: dict[str, str], early: float, late: float) -> Series:
        at = [start + timedelta(minutes=30 * number) for number in range(40)]
        points = [
            lone(n, early if n < changed_at else late, measured_at=when, revision_at=when)
            for n, when in enumerate(at)
        ]
        return measured(axes, {}, points=tuple(points))

    best = only(of(busy(BF16, 200.0, 200.0), busy(COMPILED, 190.0, 220.0)))
    assert best.best.value == 220.0
    since = best.overtaken.since_revision if best.overtaken else None
    assert since == ("r20" if told else None)
