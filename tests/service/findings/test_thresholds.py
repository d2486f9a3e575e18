"""Thresholds: a team says from which size on it wants to hear of changes, or that it does not."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from builders import long_series as long
from builders.access import Doorman, guarded
from builders.long_series import DROPPED, STEADY, noisy
from builders.looked import arrive, only
from sqlalchemy.orm import Session

from benchmarks.contracts import Case, Direction
from service.analysis.contrast import LEAST_EFFECT
from service.database.session import now_of
from service.findings.pipeline import follow_series
from service.findings.threshold_table import Choice, Scope, put, remove
from service.findings.thresholds import NEVER, least_effect, threshold_of
from service.schemas.series import SeriesName
from service.schemas.thresholds import Never, ThresholdView

THRESHOLDS = "/api/v1/thresholds"
HERE = SeriesName(
    id="a" * 32,
    case=Case(workload="resnet50"),
    metric="throughput",
    unit="img/s",
    direction=Direction.HIGHER,
    comparability={},
    project="red",
)
NEAREST_FIRST: tuple[dict[str, str], ...] = (
    {"series_id": "a" * 32, "project": "red"},
    {"project": "red", "workload": "resnet50", "metric": "throughput"},
    {"project": "red", "workload": "resnet50"},
    {"project": "red", "metric": "throughput"},
    {"project": "red"},
    {"workload": "resnet50", "metric": "throughput"},
    {"workload": "resnet50"},
    {"metric": "throughput"},
    {},
)
ELSEWHERE: tuple[dict[str, str], ...] = (
    {"series_id": "b" * 32, "project": "red"},
    {"project": "blue"},
    {"project": "red", "workload": "unet"},
    {"project": "red", "workload": "resnet50", "metric": "peak_memory"},
)


def rule(size: float | Never = 0.03, **scope: str) -> ThresholdView:
    empty = dict.fromkeys(("project", "workload", "metric", "series_id"))
    set_at = datetime(2026, 1, 1, tzinfo=UTC)
    who = {"id": "0" * 32, "actor": "ada", "reason": "noise", "set_at": set_at}
    return ThresholdView.model_validate({**empty, **scope, **who, "least_effect": size})


def test_of_several_rules_the_one_nearest_to_the_series_decides() -> None:
    """Of a series before its project's, of a project before a workload's, then a metric's."""
    rules = [rule(**scope) for scope in NEAREST_FIRST]
    for place, nearest in enumerate(rules):
        assert threshold_of(reversed(rules[place:]), HERE) == nearest


@pytest.mark.parametrize("scope", ELSEWHERE)
def test_a_rule_of_something_else_decides_nothing(scope: dict[str, str]) -> None:
    assert threshold_of([rule(**scope)], HERE) is None


def test_without_a_rule_the_default_decides() -> None:
    assert least_effect(None) == LEAST_EFFECT
    assert least_effect(rule(0.03)) == 0.03
    assert least_effect(rule("never")) == NEVER


def chosen(session: Session, size: float | Never, **scope: str) -> str:
    return put(session, Scope(**scope), Choice(size, "ada", "noise"), now_of(session)).id


@pytest.mark.parametrize("size", [0.08, "never"])
@pytest.mark.parametrize("scope", [{}, {"metric": "throughput"}, {"series_id": long.SERIES}])
def test_a_change_that_nobody_wants_to_hear_of_opens_nothing(
    session: Session, size: float | Never, scope: dict[str, str]
) -> None:
    chosen(session, size, **scope)
    assert arrive(session, noisy(STEADY + DROPPED)) == []


def test_a_change_that_is_large_enough_is_reported(session: Session) -> None:
    chosen(session, "never", metric="throughput")
    chosen(session, 0.04, workload="resnet50")
    arrive(session, noisy(STEADY + DROPPED))
    assert only(session).worst_effect == pytest.approx(-0.05, abs=0.01)


def test_after_a_threshold_is_removed_the_change_is_reported_with_the_next_result(
    session: Session,
) -> None:
    values = noisy(STEADY + DROPPED)
    threshold = chosen(session, "never", project="", metric="throughput")
    assert arrive(session, values[:-1]) == []
    remove(session, threshold)
    assert arrive(session, values[-1:], start=len(values) - 1) == [only(session).id]


@pytest.mark.parametrize(("size", "told"), [(None, 0), (0.005, 0), (0.002, 1)])
def test_a_threshold_below_the_default_works_as_far_as_the_noise_allows(
    session: Session, size: float | None, told: int
) -> None:
    if size is not None:
        chosen(session, size, series_id=long.SERIES)
    values = noisy([100.0] * 40 + [99.6] * 40, deviation=0.0002)
    assert len(arrive(session, values, quiet=70)) == told


@pytest.mark.parametrize(("size", "told"), [("never", 0), (0.08, 0), (0.03, 1)])
def test_what_moves_with_a_change_that_is_too_small_to_report_has_a_threshold_of_its_own(
    session: Session, size: float | Never, told: int
) -> None:
    chosen(session, 0.08, series_id=long.SERIES)
    chosen(session, size, series_id=long.OTHER)
    values = noisy(STEADY + DROPPED)
    for number, value in enumerate(values):
        long.add(session, {number: value})
        long.add_point(session, number, value * 1.01, long.OTHER)
    assert len(long.look(session)) == told


@pytest.mark.parametrize(("size", "suspected"), [(None, 1), (0.02, 1), (0.2, 0), ("never", 0)])
def test_a_change_that_nobody_wants_to_hear_of_is_not_measured_again(
    session: Session, size: float | Never | None, suspected: int
) -> None:
    if size is not None:
        chosen(session, size, workload="resnet50")
    long.add(session, dict(enumerate([*noisy(STEADY), 95.0])))
    long.analyse(session, long.SERIES, long.START)
    followed = follow_series(session, long.SERIES, {}, long.START)
    since = long.placed_at(len(STEADY))
    assert len(followed.with_suspicions(since, {}).suspicious) == suspected


@pytest.fixture
def doorman(database_url: str, tmp_path: Path) -> Iterator[Doorman]:
    with guarded(database_url, tmp_path) as doorman:
        yield doorman


@pytest.fixture
def admin(doorman: Doorman) -> str:
    return doorman.token("admin", "root")


def ask(doorman: Doorman, token: str, size: object, **scope: str) -> Any:
    wanted = {"least_effect": size, "reason": "too noisy here", "actor": "ada", **scope}
    return doorman.ask("PUT", THRESHOLDS, token, json=wanted)


def listed(doorman: Doorman, token: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = doorman.ask("GET", THRESHOLDS, token).json()["items"]
    return items


@pytest.mark.both_databases
def test_a_scope_has_one_threshold_which_says_who_set_it_and_why(
    doorman: Doorman, admin: str
) -> None:
    first = ask(doorman, admin, "3%", project="red", metric="throughput").json()
    assert (first["least_effect"], first["actor"]) == (0.03, "ada")
    again = ask(doorman, admin, "never", project="red", metric="throughput").json()
    assert again["id"] == first["id"]
    assert listed(doorman, admin) == [again]
    assert (again["least_effect"], again["reason"]) == ("never", "too noisy here")
    where = f"{THRESHOLDS}/{first['id']}"
    assert doorman.ask("DELETE", where, admin).status_code == 204
    assert doorman.ask("DELETE", where, admin).status_code == 404
    assert listed(doorman, admin) == []


def test_the_audit_log_says_what_was_set_and_that_it_was_removed(
    doorman: Doorman, admin: str
) -> None:
    made = ask(doorman, admin, 0.03, workload="unet").json()["id"]
    doorman.ask("DELETE", f"{THRESHOLDS}/{made}", admin)
    lines = doorman.ask("GET", "/api/v1/audit", admin).json()["items"][:2]
    assert [(line["actor"], line["action"], line["object"]) for line in lines] == [
        ("admin root", f"DELETE {THRESHOLDS}/{{threshold_id}}", f"{THRESHOLDS}/{made}"),
        (
            "admin root",
            f"PUT {THRESHOLDS}",
            f"{THRESHOLDS} -> {made} workload=unet least_effect=0.03",
        ),
    ]


def test_who_is_bound_to_a_project_sees_the_thresholds_that_hold_there(
    doorman: Doorman, admin: str
) -> None:
    with doorman.database.writing() as session:
        long.prepare(session)
    for scope in ({"project": "red"}, {"project": "blue"}, {"metric": "throughput"}):
        assert ask(doorman, admin, 0.03, **scope).status_code == 200
    assert ask(doorman, admin, 0.03, series_id=long.SERIES).json()["project"] is None
    red = listed(doorman, doorman.token("read", project="red"))
    assert [(one["project"], one["metric"]) for one in red] == [(None, "throughput"), ("red", None)]
    assert len(listed(doorman, admin)) == 4


@pytest.mark.parametrize(
    ("size", "scope", "status"),
    [
        (0, {}, 422),
        (1, {}, 422),
        (-0.03, {}, 422),
        ("3", {}, 422),
        ("often", {}, 422),
        (None, {}, 422),
        (0.03, {"metric": "power"}, 422),
        (0.03, {"series_id": "f" * 32}, 404),
        (0.03, {"series_id": long.SERIES, "metric": "throughput"}, 422),
        (0.03, {"project": "No Project"}, 422),
        ("never", {"metric": "power"}, 200),
        (0.03, {"series_id": long.SERIES}, 200),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    doorman: Doorman, admin: str, size: object, scope: dict[str, str], status: int
) -> None:
    with doorman.database.writing() as session:
        long.prepare(session)
    answer = ask(doorman, admin, size, **scope)
    assert answer.status_code == status, answer.text
    assert len(listed(doorman, admin)) == (status == 200)
