"""Nights with a known truth: the findings are exactly those, once each, and close."""

from datetime import datetime
from typing import Any

import pytest
from builders.nights import METRICS, START, Team, name_of
from sqlalchemy import func, select

from benchmarks.catalog.metrics import sample
from benchmarks.contracts import Case, JobSpec, Lease, Purpose, Result, Worker
from service import findings
from service.database.session import Database, now_of
from service.jobs import workers
from service.models import (
    AnalysisRow,
    ComparisonRow,
    ConfirmationRow,
    ConfirmationState,
    FindingEvent,
    Point,
)
from service.schemas.findings import FindingSummary, FindingView

BF16 = {"precision": "bf16"}
USUAL = {"resnet50": 1_000.0, "nanogpt": 50_000.0, "unet": 300.0}
PLAIN = tuple(Case(workload=workload, preset="full") for workload in USUAL)
FEW = (*PLAIN, Case(workload="nanogpt", preset="full", axes=BF16))
"""Nights cost what their cases do, and the truth speaks of no other."""
RATE = ("throughput",)
"""They cost what their metrics do, too; others matter where they move apart."""
NODES = {"a": 1.0, "b": 1.004, "c": 0.997, "d": 1.001}
"""Nodes of one kind differ by a little, for ever."""


def truth(case: Case, code: int, worker: str, night: int) -> float:
    """Two regressions, a revert of the first, an improvement, a driver, a bad node."""
    speed = USUAL[case.workload] * NODES[worker]
    if case.workload == "unet" and 7 <= code < 12:
        speed *= 0.95
    if case.workload == "nanogpt" and case.axes == BF16 and code >= 14:
        speed *= 1.06
    if night >= 18:
        speed *= 0.97  # the driver
    if case.workload == "resnet50" and code >= 22:
        speed *= 0.96
    if worker == "d" and night >= 25:
        speed *= 0.92
    return speed


def driver(night: int) -> dict[str, str]:
    return {"sw.driver": "580.1" if night < 18 else "590.2"}


def steady(case: Case, _code: int, worker: str, _night: int) -> float:
    return USUAL[case.workload] * NODES[worker]


def drop(case: Case, code: int, worker: str, night: int) -> float:
    """The U-Net becomes slower with revision 9."""
    return steady(case, code, worker, night) * (
        0.95 if case.workload == "unet" and code >= 9 else 1
    )


def found(database: Database) -> list[FindingSummary]:
    """Every finding, the oldest first."""
    with database.reading() as session:
        return list(findings.list_findings(session).items)[::-1]


def whole(database: Database, finding: FindingSummary) -> FindingView:
    with database.reading() as session:
        return findings.load_finding(session, finding.id)


def outcomes(database: Database) -> list[tuple[str, str]]:
    with database.reading() as session:
        rows = session.execute(
            select(ConfirmationRow.first_bad, ConfirmationRow.state).order_by(ConfirmationRow.id)
        )
        return [(first_bad, state) for first_bad, state in rows]


def told(finding: FindingSummary) -> tuple[Any, ...]:
    return (
        finding.kind.value,
        finding.state.value,
        finding.cause,
        finding.last_good,
        finding.first_bad,
        finding.certainty.value,
    )


@pytest.mark.parametrize(
    ("seed", "metrics"),
    [pytest.param(2, METRICS, marks=pytest.mark.slow), (42, RATE)],
    ids=["all", "rate"],
)
def test_thirty_nights_end_in_what_happened_once_each(
    sqlite_url: str, seed: int, metrics: tuple[str, ...]
) -> None:
    database = Database(sqlite_url)
    team = Team(database, truth, driver, cases=FEW, seed=seed, metrics=metrics)
    for night in range(30):
        team.night(night)
    seen = found(database)
    assert [told(each) for each in seen[:4]] == [
        ("regression", "resolved", "code", "r06", "r07", "confirmed"),
        ("improvement", "open", "code", "r13", "r14", "confirmed"),
        ("regression", "open", "environment", "r17", "r18", "confirmed"),
        ("regression", "open", "code", "r21", "r22", "confirmed"),
    ]
    (node,) = seen[4:]
    assert (node.kind, node.state, node.worker) == ("bad_node", "open", "d")
    assert node.first_bad in ("r25", "r26")  # the first night is told by what it happened to run
    cases = [{s.series.case.workload for s in whole(database, each).series} for each in seen]
    assert cases[:2] == [{"unet"}, {"nanogpt"}]
    assert (cases[3], cases[4]) == ({"resnet50"}, set())
    assert len(cases[2]) == 3
    assert "r12" in whole(database, seen[0]).events[-1].detail
    assert "580.1 -> 590.2" in seen[2].sentence
    assert '(Ada, "Change 22")' in seen[3].sentence
    with database.reading() as session:
        announced = select(FindingEvent.finding_id, func.count()).where(
            FindingEvent.action == "open"
        )
        counts = session.execute(announced.group_by(FindingEvent.finding_id)).all()
    assert [count for _, count in counts] == [1] * 5
    database.close()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_confirmed_drop_that_is_mended_within_days_closes_after_four_nights(
    sqlite_url: str, seed: int
) -> None:
    """The history has one border for weeks: between the old level and a mean of both."""
    database = Database(sqlite_url)

    def speed(case: Case, code: int, worker: str, night: int) -> float:
        dropped = case.workload == "unet" and 8 <= code < 10
        return steady(case, code, worker, night) * (0.97 if dropped else 1.0)

    team = Team(database, speed, cases=PLAIN, names=("a",), seed=seed)
    for night in range(14):
        team.night(night)
    (finding,) = found(database)
    assert told(finding) == ("regression", "resolved", "code", "r07", "r08", "confirmed")
    assert "since r10" in whole(database, finding).events[-1].detail
    database.close()


@pytest.mark.both_databases(slow="postgresql")
def test_quiet_nights_find_nothing_on_either_database(database: Database) -> None:
    team = Team(database, steady, seed=3, cases=PLAIN)
    for night in range(14):
        team.night(night)
    assert found(database) == []
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(AnalysisRow)) == 9
        assert session.scalar(select(func.min(AnalysisRow.points))) == 14


@pytest.mark.both_databases(slow="postgresql")
def test_what_is_measured_again_makes_no_point_in_any_history(database: Database) -> None:
    team = Team(database, drop, cases=PLAIN)
    for night in range(11):
        team.night(night)
    (finding,) = found(database)
    assert told(finding)[:5] == ("regression", "open", "code", "r08", "r09")
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Point)) == 11 * 9
        sources = session.scalars(select(ComparisonRow.source)).all()
    assert all(source.startswith("confirmation:") for source in sources)
    assert team.measured > 11 * 3


@pytest.mark.slow
def test_with_one_worker_it_still_works_and_says_what_it_cannot_exclude(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    team = Team(database, truth, driver, names=("a",), cases=FEW)
    for night in range(21):
        team.night(night)
    kinds = [told(each)[:5] for each in found(database)]
    assert kinds == [
        ("regression", "resolved", "code", "r06", "r07"),
        ("improvement", "open", "code", "r13", "r14"),
        ("regression", "open", "environment", "r17", "r18"),
    ]
    attribution = whole(database, found(database)[2]).attribution
    assert attribution is not None
    assert any("worker" in each or "node" in each for each in attribution.not_excluded)
    database.close()


def test_without_checkouts_measuring_again_still_tells_a_fluke_from_a_change(
    sqlite_url: str,
) -> None:
    database = Database(sqlite_url)
    team = Team(database, drop, checkouts=False, cases=PLAIN)
    for night in range(13):
        team.night(night)
    (finding,) = found(database)
    assert told(finding)[:2] + told(finding)[3:] == (
        "regression", "open", "r08", "r09", "confirmed",
    )  # fmt: skip
    database.close()


def test_a_fluke_is_measured_again_and_forgotten(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    once = {"left": 1}

    def hiccup(case: Case, code: int, worker: str, night: int) -> float:
        if night == 9 and case.workload == "unet" and once["left"]:
            once["left"] = 0
            return steady(case, code, worker, night) * 0.9
        return steady(case, code, worker, night)

    team = Team(database, hiccup, cases=PLAIN)
    for night in range(13):
        team.night(night)
    assert found(database) == []
    assert (name_of(9), ConfirmationState.NOT_REPRODUCED) in outcomes(database)
    database.close()


def test_a_fluke_hides_no_larger_change_two_nights_later(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    once = {"left": 1}

    def hiccup(case: Case, code: int, worker: str, night: int) -> float:
        speed = steady(case, code, worker, night)
        if case.workload != "unet":
            return speed
        if night == 9 and once["left"]:
            once["left"] = 0
            return speed * 0.98
        return speed * (0.94 if code >= 11 else 1)

    team = Team(database, hiccup, cases=PLAIN)
    for night in range(12):
        team.night(night)
    assert (name_of(9), ConfirmationState.NOT_REPRODUCED) in outcomes(database)
    (finding,) = found(database)
    assert told(finding)[:5] == ("regression", "open", "code", "r10", "r11")
    database.close()


@pytest.mark.slow
def test_a_revert_after_a_driver_ends_the_regression_and_not_the_driver(sqlite_url: str) -> None:
    database = Database(sqlite_url)

    def both(case: Case, code: int, worker: str, night: int) -> float:
        speed = steady(case, code, worker, night) * (0.97 if night >= 18 else 1)
        return speed * (0.96 if case.workload == "unet" and 14 <= code < 22 else 1)

    team = Team(database, both, driver, cases=PLAIN)
    for night in range(27):
        team.night(night)
    assert [told(finding)[:5] for finding in found(database)] == [
        ("regression", "resolved", "code", "r13", "r14"),
        ("regression", "open", "environment", "r17", "r18"),
    ]
    database.close()


SETTINGS = ({}, {"compile": "default"}, BF16, {"optimizer": "fused"}, {"attention": "math"})


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (3, 3),
        pytest.param(3, len(SETTINGS), marks=pytest.mark.slow),
        pytest.param(8, len(SETTINGS), marks=pytest.mark.slow),
    ],
)
def test_what_drifts_is_told_once_though_its_cases_show_it_on_different_days(
    sqlite_url: str, seed: int, settings: int
) -> None:
    """With seed 8 a small step is told first, and the drift shows no other one after it."""
    database = Database(sqlite_url)

    def drift(case: Case, code: int, worker: str, night: int) -> float:
        gone = 0.03 * min(max(0.0, (code - 13) / 12), 1.0) if case.workload == "nanogpt" else 0.0
        return steady(case, code, worker, night) * (1 - gone)

    cases = [Case(workload="nanogpt", preset="full", axes=axes) for axes in SETTINGS[:settings]]
    team = Team(database, drift, cases=[*cases, PLAIN[0]], seed=seed, metrics=RATE)
    for night in range(28):
        team.night(night)
    (finding,) = found(database)
    assert told(finding)[:3] == ("regression", "open", "unknown")
    moved = {one.series.case.key for one in whole(database, finding).series}
    assert moved == {case.key for case in cases}
    assert "little by little since r1" in finding.headline
    assert finding.worst_effect == pytest.approx(-0.03, abs=0.006)  # not that of its first step
    database.close()


@pytest.mark.parametrize("settings", [2, pytest.param(len(SETTINGS), marks=pytest.mark.slow)])
def test_two_steps_in_the_same_cases_are_no_drift(sqlite_url: str, settings: int) -> None:
    database = Database(sqlite_url)

    def steps(case: Case, code: int, worker: str, night: int) -> float:
        gone = 0.01 * ((code >= 14) + (code >= 19)) if case.workload == "nanogpt" else 0.0
        return steady(case, code, worker, night) * (1 - gone)

    cases = [Case(workload="nanogpt", preset="full", axes=axes) for axes in SETTINGS[:settings]]
    team = Team(database, steps, cases=[*cases, PLAIN[0]], seed=3, metrics=RATE)
    for night in range(24):
        team.night(night)
    assert [told(one)[:5] for one in found(database)] == [
        ("regression", "open", "code", "r13", "r14"),
        ("regression", "open", "code", "r18", "r19"),
    ]
    database.close()


UNET = Case(workload="unet", preset="full")


def alone(_case: Case, _code: int, _worker: str, _night: int) -> float:
    return 300.0


def in_history(spec: JobSpec, revision: int) -> bool:
    """Whether a job measures a revision for the history, and not for a comparison."""
    return spec.purpose is Purpose.HISTORY and spec.revision == name_of(revision)


def test_a_metric_that_did_change_is_not_cleared_by_another_ones_fluke(sqlite_url: str) -> None:
    def factor(spec: JobSpec, _worker: str, metric: str) -> float:
        if metric == "peak_memory":
            return 1.05 if spec.revision >= name_of(15) else 1.0
        return 0.88 if metric == "throughput" and in_history(spec, 15) else 1.0

    database = Database(sqlite_url)
    team = Team(database, alone, names=("a",), cases=(UNET,), factor=factor)
    for night in range(21):
        team.night(night)
    assert (name_of(15), ConfirmationState.NOT_REPRODUCED) in outcomes(database)
    (finding,) = found(database)
    assert told(finding)[:5] == ("regression", "open", "code", "r14", "r15")
    assert finding.sentence.startswith("peak memory")
    database.close()


class Gangs(Team):
    """Workers of two GPUs, whose results have a scaling efficiency."""

    def _introduce(self, worker: str) -> None:
        with self.database.writing() as session:
            introduced = Worker(name=worker, labels={"gpus": "2"})
            workers.introduce(session, introduced, now_of(session))

    def _result(self, lease: Lease, worker: str, now: datetime) -> Result:
        result = super()._result(lease, worker, now)
        fallen = 0.95 if lease.spec.revision >= name_of(15) else 1.0
        near = tuple(fallen * float(v) for v in self.random.normal(0.97, 0.002, 3))
        told = sample("scaling_efficiency", 0.97).model_copy(update={"values": near})
        return result.model_copy(update={"samples": (*result.samples, told)})


def test_a_gang_that_scales_worse_is_a_finding_though_its_throughput_stays(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    axes = {"gpus": "2", "parallel": "ddp"}
    case = Case(workload="unet", preset="full", axes=axes)
    team = Gangs(database, alone, names=("a",), cases=(case,))
    for night in range(21):
        team.night(night)
    (finding,) = found(database)
    assert told(finding)[:5] == ("regression", "open", "code", "r14", "r15")
    headline = finding.headline.replace("\u00a0", " ")
    assert headline == "scaling efficiency of unet:full gpus=2 parallel=ddp 5.0 % lower since r15"
    database.close()


def test_what_only_regular_runs_show_is_blamed_on_no_code_in_any_metric(sqlite_url: str) -> None:
    def factor(spec: JobSpec, _worker: str, metric: str) -> float:
        slow = spec.purpose is Purpose.HISTORY and spec.revision >= name_of(15)
        return {"throughput": 0.88, "peak_memory": 1.05}.get(metric, 1.0) if slow else 1.0

    database = Database(sqlite_url)
    team = Team(database, alone, names=("a",), cases=(UNET,), factor=factor)
    for night in range(21):
        team.night(night)
    assert found(database)
    assert {finding.cause for finding in found(database)} == {"unknown"}
    assert all("the code does not explain it" in each.sentence for each in found(database))
    database.close()


def test_one_kind_of_gpu_is_not_cleared_by_measuring_again_on_another(sqlite_url: str) -> None:
    def factor(spec: JobSpec, worker: str, metric: str) -> float:
        if metric != "throughput":
            return 1.0
        if worker == "new":
            return 0.94 if spec.revision >= name_of(15) else 1.0
        return 0.88 if in_history(spec, 15) else 1.0

    database = Database(sqlite_url)
    gpus = {"old": "NVIDIA H100", "new": "NVIDIA H200"}
    team = Team(database, alone, names=tuple(gpus), cases=(UNET,), factor=factor, gpus=gpus)
    for night in range(17):
        team.night(night)
    assert sorted(outcomes(database)) == [("r15", "confirmed"), ("r15", "not_reproduced")]
    (finding,) = found(database)
    assert told(finding) == ("regression", "open", "code", "r14", "r15", "confirmed")
    assert finding.comparability["hw.gpu.name"] == "NVIDIA H200"
    database.close()


def test_a_node_that_is_known_to_be_slow_confirms_nothing(sqlite_url: str) -> None:
    def one_slow(case: Case, _code: int, worker: str, night: int) -> float:
        return USUAL[case.workload] * (0.9 if worker == "a" and night >= 14 else 1.0)

    def factor(spec: JobSpec, worker: str, metric: str) -> float:
        hiccup = worker != "a" and metric == "throughput" and spec.case == UNET
        return 0.9 if hiccup and in_history(spec, 22) else 1.0

    database = Database(sqlite_url)
    team = Team(database, one_slow, names=("a", "b", "c"), cases=PLAIN, factor=factor)
    for night in range(23):
        team.night(night)
    (finding,) = found(database)
    assert (finding.kind, finding.worker) == ("bad_node", "a")
    assert (name_of(22), ConfirmationState.NOT_REPRODUCED) in outcomes(database)
    database.close()


def test_without_confirmations_the_history_alone_decides(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    team = Team(database, drop, daily=0, cases=PLAIN)
    for night in range(18):
        team.night(night)
    (finding,) = found(database)
    assert told(finding) == ("regression", "open", "code", "r08", "r09", "standing")
    assert outcomes(database) == []
    assert finding.first_bad_at > START
    database.close()


@pytest.mark.parametrize(("share", "count"), [(0.991, 0), (0.95, 1)])
def test_an_environment_that_moves_one_case_by_little_is_left_to_the_history(
    sqlite_url: str, share: float, count: int
) -> None:
    """Both revisions are at the new level, and how well was the old one known?"""

    def slower(case: Case, _code: int, _worker: str, night: int) -> float:
        return USUAL[case.workload] * (share if case == UNET and night >= 18 else 1.0)

    database = Database(sqlite_url)
    team = Team(database, slower, names=("a", "b"), cases=PLAIN)
    for night in range(20):
        team.night(night)
    assert ConfirmationState.ENVIRONMENT in {state for _, state in outcomes(database)}
    assert len(found(database)) == count
    database.close()


@pytest.mark.parametrize("newest", [pytest.param(12, marks=pytest.mark.slow), 1])
def test_a_driver_that_changes_under_one_revision_is_not_put_down_to_its_code(
    database: Database, newest: int
) -> None:
    """Nobody commits for a fortnight, or a schedule names one revision for ever."""

    def slower(case: Case, code: int, worker: str, night: int) -> float:
        return steady(case, code, worker, night) * (0.95 if night >= 18 else 1.0)

    cases = (Case(workload="unet", preset="full"), Case(workload="resnet50", preset="full"))
    team = Team(database, slower, driver, names=("a",), daily=0, cases=cases)
    for night in range(24):
        team.night(night, code=min(night, newest))
    (finding,) = found(database)
    assert (finding.last_good, finding.first_bad) == (name_of(newest), name_of(newest))
    assert finding.cause == "environment"
    assert "driver 580.1 -> 590.2" in finding.sentence
    assert finding.series_count == 2


@pytest.mark.parametrize("seed", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_a_finding_gives_up_what_only_a_slow_worker_moved(sqlite_url: str, seed: int) -> None:
    """The worker became slow in the night of the change, before anybody knew."""

    def both(case: Case, code: int, worker: str, night: int) -> float:
        slower = 0.98 if case.workload == "nanogpt" and code >= 12 else 1.0
        slow = 0.95 if worker == "d" and night >= 12 else 1.0
        return steady(case, code, worker, night) * slower * slow

    database = Database(sqlite_url)
    cases = (*PLAIN, *(one.model_copy(update={"axes": BF16}) for one in PLAIN))
    team = Team(database, both, cases=cases, seed=seed)
    for night in range(15):
        team.night(night)
    slower, node = found(database)
    about = whole(database, slower)
    assert {one.series.case.workload for one in about.series} == {"nanogpt"}
    assert max(abs(one.effect) for one in about.series) < 0.03
    assert "leave" in [event.action for event in about.events]
    assert (node.kind, node.worker) == ("bad_node", "d")
