"""Each worker is compared with its own past: what differs between workers for ever is no change."""

from collections.abc import Callable, Mapping
from itertools import product

import pytest
from builders.series import point

from service.dashboard import environments
from service.dashboard.environments import EnvironmentChange, EnvironmentHistory
from service.schemas.series import SeriesPoint

WORKERS = ("a", "b", "c")
NIGHTS = 30
OWN = {
    "a": {"hw.host": "a", "hw.gpu.driver": "570", "hw.gpu.max_sm_clock_hz": "1980000000"},
    "b": {"hw.host": "b", "hw.gpu.driver": "575", "hw.gpu.max_sm_clock_hz": "1755000000"},
    "c": {"hw.host": "c", "hw.gpu.driver": "575", "hw.gpu.max_sm_clock_hz": "1980000000"},
}
"""What differs between the workers for ever."""
Facts = Callable[[str, int], Mapping[str, str]]
"""The facts of a worker on a night that are not its own for ever."""
Measures = Callable[[str, int], bool]


def always(_worker: str, _night: int) -> bool:
    return True


def history(later: Facts, measures: Measures = always) -> tuple[EnvironmentChange, ...]:
    """The changes in a history that all workers measure every night, one after another."""
    return environments_of(later, measures).changes


def environments_of(later: Facts, measures: Measures = always) -> EnvironmentHistory:
    points: list[SeriesPoint] = []
    facts: dict[str, Mapping[str, str]] = {}
    for night, worker in product(range(NIGHTS), WORKERS):
        if measures(worker, night):
            known = OWN[worker] | later(worker, night)
            digest = str(sorted(known.items()))
            facts[digest] = known
            points.append(point(night, 100.0, worker=worker, environment=digest))
    assert environments.around_changes(points) <= facts.keys()
    return environments.history_of(points, facts)


def told(change: EnvironmentChange) -> list[tuple[str, str | None, str | None, tuple[str, ...]]]:
    return [(d.fact, d.before, d.after, d.workers) for d in change.differences]


def test_workers_that_differ_for_ever_change_nothing() -> None:
    assert history(lambda _worker, _night: {}) == ()


def test_a_driver_that_changes_on_all_workers_in_one_night_is_one_change() -> None:
    (change,) = history(lambda _, night: {"hw.gpu.driver": "580"} if night >= 12 else {})
    assert (change.before.revision, change.after.revision) == ("r11", "r12")
    assert change.everywhere
    assert change.mark.label == "env 1"
    assert told(change) == [
        ("hw.gpu.driver", "570", "580", ("a",)),
        ("hw.gpu.driver", "575", "580", ("b", "c")),
    ]


def test_a_driver_that_changes_on_one_worker_is_one_change_that_names_the_worker() -> None:
    new = {"hw.gpu.driver": "580"}
    (change,) = history(lambda worker, night: new if worker == "b" and night >= 12 else {})
    assert (change.before.revision, change.after.revision) == ("r11", "r12")
    assert (change.everywhere, change.workers) == (False, ("b",))
    assert change.mark.label == "env 1 on b"
    assert told(change) == [("hw.gpu.driver", "575", "580", ("b",))]


def test_a_driver_that_is_rolled_out_worker_by_worker_is_a_change_each_night() -> None:
    first = {"a": 12, "b": 13, "c": 14}
    new = {"hw.gpu.driver": "580"}
    changes = history(lambda worker, night: new if night >= first[worker] else {})
    assert [(one.number, one.workers) for one in changes] == [
        (1, ("a",)),
        (2, ("b",)),
        (3, ("c",)),
    ]
    assert not any(one.everywhere for one in changes)


def test_a_worker_that_measured_seldom_joins_the_change_of_the_others() -> None:
    new = {"hw.gpu.driver": "580"}
    (change,) = history(
        lambda _, night: new if night >= 12 else {},
        lambda worker, night: worker != "c" or night in {3, 20},
    )
    assert (change.before.revision, change.after.revision) == ("r11", "r12")
    assert change.everywhere
    assert change.workers == WORKERS


def test_another_fact_of_a_worker_that_measured_seldom_is_a_change_of_its_own() -> None:
    changes = history(
        lambda worker, night: {("sw.torch" if worker == "c" else "sw.os"): str(night >= 12)},
        lambda worker, night: worker != "c" or night in {3, 20},
    )
    assert [(one.workers, {d.fact for d in one.differences}) for one in changes] == [
        (("a", "b"), {"sw.os"}),
        (("c",), {"sw.torch"}),
    ]


@pytest.mark.parametrize("fact", ["hw.host", "hw.gpu.temperature_c", "hw.shifting", "sw.packages"])
def test_what_is_another_at_every_start_is_no_change(fact: str) -> None:
    """The name of a container, a reading, what nobody knows, and a digest of the code itself."""
    found = environments_of(lambda _, night: {fact: str(night)})
    assert found.changes == ()
    assert found.restless == (("hw.shifting",) if fact == "hw.shifting" else ())


def test_a_driver_that_was_tried_for_one_night_is_two_changes() -> None:
    changes = history(lambda _, night: {"hw.gpu.driver": "580"} if night == 12 else {})
    assert [(one.before.revision, one.after.revision) for one in changes] == [
        ("r11", "r12"),
        ("r12", "r13"),
    ]


def test_a_fact_that_was_not_recorded_before_is_no_change_but_an_unset_variable_is() -> None:
    facts = {"sw.libc": "glibc", "sw.env.OMP_NUM_THREADS": "4", "sw.packages": "ff"}
    (change,) = history(lambda _, night: facts if night >= 12 else {})
    assert [(d.fact, d.before, d.after) for d in change.differences] == [
        ("sw.env.OMP_NUM_THREADS", None, "4")
    ]


@pytest.mark.parametrize(
    ("now", "is_new"),
    [
        ({}, False),
        ({"hw.host": "drawn-anew", "sw.benchmarks": "of this revision"}, False),
        ({"hw.gpu.driver": "580"}, True),
    ],
)
def test_the_newest_measurement_is_held_against_the_one_before_of_its_worker(
    now: Mapping[str, str], is_new: bool
) -> None:
    facts = {**OWN, "now": OWN["a"] | now}
    older = [point(n, 1.0, worker="ab"[n % 2], environment="ab"[n % 2]) for n in range(1, 6)]
    newest = point(6, 1.0, worker="a", environment="now")
    step = environments.newest_step([*older, newest])
    assert [one.revision for one in step] == ["r4", "r6"]
    assert environments.tells(*(facts[one.environment] for one in step)) == is_new
    assert environments.newest_step(older) == ()
