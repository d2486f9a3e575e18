"""What other tools measured is kept as it came, judged like ours, and mixed with nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from service.database.session import Database
from service.findings import pipeline
from service.maintenance import verify
from service.models import ImportedPoint, Point, Revision, SeriesRow

pytestmark = pytest.mark.both_databases

FIRST = datetime(2024, 3, 1, tzinfo=UTC)
MACHINE = {"machine": "ci-1", "cpu": "Xeon", "os": "Linux 6.1"}


def point(number: int = 0, value: float = 1.0, **more: Any) -> dict[str, Any]:
    """One benchmark at one commit, as a tool wrote it."""
    at = FIRST + timedelta(days=number)
    known = {
        "benchmark": "sort.TimeSuite.time_sort",
        "parameters": {"n": "1000"},
        "metric": "time",
        "unit": "s",
        "direction": "lower",
        "values": [value],
        "revision": f"c{number:04d}",
        "at": (at + timedelta(hours=3)).isoformat(),
        "committed_at": at.isoformat(),
        "machine": MACHINE,
    }
    return known | more


def history(steps: int = 60, step_at: int = 40, size: float = 1.2, **more: Any) -> list[Any]:
    """A history that becomes slower once, with half a percent of noise."""
    noise = np.random.default_rng(7).normal(1.0, 0.005, steps)
    levels = [float(x) * (size if n >= step_at else 1.0) for n, x in enumerate(noise)]
    return [point(number, value, **more) for number, value in enumerate(levels)]


class Importer:
    """Sends points to a service, and has it look at them."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.database: Database = client.app.state.database  # type: ignore[attr-defined]

    def send(self, points: list[Any], source: str = "asv", **more: Any) -> Any:
        body = {"source": source, "points": points, **more}
        return self.client.post("/api/v1/imports", json=body)

    def new(self, points: list[Any], source: str = "asv", **more: Any) -> int:
        answer = self.send(points, source, **more)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["new"])

    def look(self) -> list[str]:
        opened: list[str] = []
        while (looked := pipeline.look(self.database)).notes:
            opened += looked.opened
        return opened

    def get(self, path: str, **parameters: Any) -> Any:
        answer = self.client.get(f"/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def series(self, **filters: Any) -> list[Any]:
        listed: list[Any] = self.get("series", **filters)["items"]
        return listed

    def count(self, model: Any) -> int:
        with self.database.reading() as session:
            return session.scalar(select(func.count()).select_from(model)) or 0


@pytest.fixture
def importer(client: TestClient) -> Iterator[Importer]:
    """An importer whose database keeps every promise at the end."""
    one = Importer(client)
    yield one
    report = verify.verify(one.database)
    assert report.kept, report


def test_points_read_back_equal(importer: Importer) -> None:
    several = point(0, values=[1.0, 1.25, 1.5], low=None, high=None)
    bounded = point(1, values=[2.0], low=1.9, high=2.2, parameters={})
    bare = {"benchmark": "b", "metric": "m", "unit": "", "direction": "higher", "values": [3.0]}
    assert importer.new([several, bounded, {**bare, "revision": "v1"}]) == 3
    exported = [
        one
        for series in importer.series()
        for one in importer.get(f"series/{series['id']}/export")["items"]
    ]
    given = [several, bounded, {**bare, "revision": "v1"}]
    plain = {"parameters": {}, "low": None, "high": None, "at": None, "committed_at": None}
    written = [_moments({**plain, "machine": {}, **one}) for one in given]
    key = lambda one: (one["benchmark"], one["revision"])  # noqa: E731
    assert sorted(map(_moments, exported), key=key) == sorted(written, key=key)


def _moments(said: dict[str, Any]) -> dict[str, Any]:
    times = {
        name: said[name] and datetime.fromisoformat(said[name]) for name in ("at", "committed_at")
    }
    return {**said, **times}


def test_several_values_give_an_interval_and_a_tools_own_bounds_are_kept(
    importer: Importer,
) -> None:
    importer.new(
        [
            point(0, values=[1.0, 2.0, 3.0], low=0.5, high=9.0),
            point(1, values=[2.0], low=1.5, high=2.5),
        ]
    )
    (series,) = importer.series()
    several, bounded = importer.get(f"series/{series['id']}")["points"]
    assert (several["value"], several["interval"], several["replicates"]) == (2.0, "replicates", 3)
    assert several["low"] == pytest.approx(2.0 - 2.4841, abs=1e-3)  # t(2) = 4.303, over sqrt(3)
    assert (bounded["low"], bounded["high"], bounded["interval"]) == (1.5, 2.5, "within_run")
    assert (bounded["worker"], bounded["revision"]) == ("", "c0001")


def test_the_same_points_again_change_nothing(importer: Importer) -> None:
    points = history(20)
    assert importer.new(points) == 20
    importer.look()
    again = importer.send([*points[5:], points[5], point(20)]).json()
    assert (again["new"], again["known"]) == (1, 16)
    assert importer.send(points).json() == {"new": 0, "known": 20, "series": []}
    assert importer.count(Point) == importer.count(ImportedPoint) == 21


def test_a_commits_date_that_is_learnt_later_is_no_new_point(importer: Importer) -> None:
    undated = [point(number, committed_at=None) for number in (2, 1)]
    importer.new(undated)
    assert importer.new([point(2), point(1)]) == 0
    (series,) = importer.series()
    points = importer.get(f"series/{series['id']}")["points"]
    assert [one["revision"] for one in points] == ["c0001", "c0002"]
    assert datetime.fromisoformat(points[0]["revision_at"]) == FIRST + timedelta(days=1)
    bare = {"at": None, "benchmark": "bare"}
    importer.new([point(3, **bare, committed_at=None)])
    assert importer.new([point(3, **bare)]) == 0
    (series,) = importer.series(case="asv/bare n=1000")
    (only,) = importer.get(f"series/{series['id']}")["points"]
    assert datetime.fromisoformat(only["measured_at"]) == FIRST + timedelta(days=3)


def test_without_dates_of_commits_the_history_follows_the_times_of_measuring(
    importer: Importer,
) -> None:
    importer.new([point(number, committed_at=None) for number in (3, 1, 2)])
    (series,) = importer.series()
    points = importer.get(f"series/{series['id']}")["points"]
    assert [one["revision"] for one in points] == ["c0001", "c0002", "c0003"]


def test_source_parameters_hardware_project_and_name_part_series(importer: Importer) -> None:
    importer.new([point()])
    importer.new([point()], source="other")
    importer.new([point()], project="red")
    importer.new([point(parameters={"n": "10"}), point(benchmark="renamed")])
    importer.new([point(machine={**MACHINE, "machine": "ci-2"})])
    assert len(importer.series()) == 6
    upgraded = point(1, machine={**MACHINE, "os": "Linux 6.9"})
    importer.new([upgraded])  # software changes inside a series
    assert len(importer.series()) == 6
    key = "asv/sort.TimeSuite.time_sort n=1000"
    assert {one["project"] for one in importer.series(case=key)} == {"", "red"}


def test_one_request_is_imported_whole_or_not_at_all(importer: Importer) -> None:
    importer.new([point()])
    refused = importer.send([point(1), point(2, unit="ms")])
    assert refused.status_code == 409
    assert "is in s, lower is better; this import has it in ms" in refused.json()["detail"]
    turned = importer.send([point(1, direction="higher")])
    assert (turned.status_code, importer.count(ImportedPoint)) == (409, 1)
    nameless = importer.send([point(1), point(2, revision=None)])
    assert nameless.status_code == 422
    assert "1 of 2 points name no revision" in nameless.json()["detail"]
    two_dates = importer.send([point(1), point(1, committed_at=FIRST.isoformat())])
    assert two_dates.status_code == 422
    assert importer.send([point(1)] * 1001).status_code == 422
    assert importer.count(ImportedPoint) == importer.count(Point) == 1
    assert importer.count(Revision) == 1


@pytest.mark.parametrize(
    "at", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00", "1900-01-01T00:00:00Z"]
)
@pytest.mark.parametrize("field", ["at", "committed_at"])
def test_a_time_that_no_database_holds_is_refused(importer: Importer, field: str, at: str) -> None:
    refused = importer.send([point(), point(1, **{field: at})])
    assert refused.status_code == 422
    assert "must lie between the years 1990 and 2200" in refused.json()["detail"]
    assert importer.count(ImportedPoint) == 0


@pytest.mark.parametrize("name", ["sort", "sort.Time[n=1 x:y]", 'a "quoted" one'])
def test_series_are_listed_by_their_benchmark(importer: Importer, name: str) -> None:
    others = (f"{name}:b", f"{name} more", f"more {name}")
    importer.new([point(benchmark=one) for one in (name, *others)])
    (series,) = importer.series(workload=name)
    assert series["case"]["workload"] == name
    assert importer.series(workload=f"asv/{name}") == []


def test_a_check_says_what_an_import_would_and_stores_nothing(importer: Importer) -> None:
    importer.new([point()])
    tried = importer.send([point(), point(1)], check_only=True)
    assert (tried.status_code, tried.json()["new"], tried.json()["known"]) == (200, 1, 1)
    assert importer.send([point(1, unit="ms")], check_only=True).status_code == 409
    assert importer.count(ImportedPoint) == importer.count(Point) == 1
    assert importer.count(Revision) == importer.count(SeriesRow) == 1
    assert importer.new([point(1)]) == 1


def test_a_step_becomes_a_finding_that_says_imported(importer: Importer) -> None:
    importer.new(history())
    (opened,) = importer.look()
    finding = importer.get(f"findings/{opened}")
    summary = finding["summary"]
    assert (summary["first_bad"], summary["cause"]) == ("c0040", "unknown")
    assert summary["certainty"] == "standing"
    assert summary["sentence"].replace("\u00a0", " ") == (
        "time of asv/sort.TimeSuite.time_sort n=1000 is 20.3 % longer since c0040. Cause not "
        "known: imported from asv, so nothing tells code from machine."
    )
    (about,) = finding["series"]
    assert about["series"]["case"]["source"] == "asv"


def test_a_step_of_several_benchmarks_is_of_no_training(importer: Importer) -> None:
    names = ("find", "join", "sort")
    slower = [one for name in names for one in history(benchmark=name)]
    small = {"step_at": 60, "parameters": {"n": "1"}}
    steady = [one for name in names for one in history(benchmark=name, **small)]
    importer.new([*slower, *steady])
    (opened,) = importer.look()
    summary = importer.get(f"findings/{opened}")["summary"]
    assert (
        summary["sentence"]
        .replace("\u00a0", " ")
        .startswith(
            "time of code measured by asv with n=1000 is 20.3 % longer since c0040: all 3 cases"
        )
    )
    page = importer.client.get(f"/findings/{opened}").text
    assert "training" not in page


def test_what_is_imported_shares_no_finding_with_another_source_or_with_ours(
    importer: Importer,
) -> None:
    importer.new(history())
    importer.new(history(benchmark="beside"))
    importer.new(history(), source="other")
    opened = importer.look()
    about = [importer.get(f"findings/{one}")["series"] for one in opened]
    sources = sorted([one["series"]["case"]["source"] for one in each] for each in about)
    assert sources == [["asv", "asv"], ["other"]]


def test_what_was_imported_cannot_be_bisected(importer: Importer, hand: Hand) -> None:
    importer.new(history())
    (opened,) = importer.look()
    refused = importer.client.post("/api/v1/bisections", json={"finding": opened})
    assert refused.status_code == 422
    assert "imported from asv: no worker here can measure it" in refused.json()["detail"]
    assert importer.get("confirmations")["items"] == []
    assert hand.claim() is None


def test_what_was_imported_is_not_taken_out_of_its_history(importer: Importer) -> None:
    importer.new([point()])
    (series,) = importer.series()
    (only,) = importer.get(f"series/{series['id']}")["points"]
    path = f"/api/v1/results/{only['result_id']}/exclusion"
    refused = importer.client.put(path, json={"reason": "cold", "actor": "ann"})
    assert refused.status_code == 404
    assert "only what is measured here" in refused.json()["detail"]


def test_every_page_shows_it_and_no_page_calls_it_measured(importer: Importer) -> None:
    importer.new(history(metric="throughput", unit="op/s", direction="higher"))
    (opened,) = importer.look()
    (series,) = importer.series()
    (first, *_) = importer.get(f"series/{series['id']}")["points"]
    pages = {
        "/": "sort.TimeSuite.time_sort",
        f"/series/{series['id']}": "Imported from asv",
        f"/findings/{opened}": "imported from asv",
        "/findings": "sort.TimeSuite.time_sort",
        "/compare?baseline=c0030&contender=c0050": "sort.TimeSuite.time_sort",
        f"/runs/{first['result_id']}": "Imported from asv",
        f"/series/{series['id']}/points.csv": "c0040",
        "/cases?text=sort": "from asv",
    }
    for path, words in pages.items():
        page = importer.client.get(path)
        assert page.status_code == 200, (path, page.text)
        assert words in page.text, path
    assert importer.get("best")["items"] == []


def test_cases_of_imports_alone_show_their_commonest_metric(importer: Importer) -> None:
    more = [point(benchmark=name) for name in ("find", "parse")]
    importer.new([*more, point(), point(metric="mem", unit="B")])
    page = importer.client.get("/cases").text
    assert all(name in page for name in ("find", "parse", "time_sort"))
    assert '<option value="time" selected>' in page
    assert "No series of throughput" in importer.client.get("/cases?metric=throughput").text


def test_a_comparison_of_imports_alone_is_of_their_commonest_metric(importer: Importer) -> None:
    both = [*history(step_at=59), *history(benchmark="find")]
    importer.new([*both, point(metric="mem", unit="B")])
    between = {"baseline": "c0000", "contender": "c0059"}
    compared = importer.get("changes", **between)
    assert (compared["metric"], len(compared["changes"])) == ("time", 2)
    assert importer.get("changes", **between, metric="throughput")["changes"] == []
    page = importer.client.get("/compare", params=between).text
    assert "Nothing to compare" not in page
    assert "/compare/modules" not in page, "no run of ours is behind a point"
    assert '<option value="time" selected>' in page


def test_a_project_sees_its_own_imports_alone(importer: Importer) -> None:
    importer.new(history(20), project="red")
    changes = importer.get(
        "changes", baseline="c0001", contender="c0002", metric="time", project="blue"
    )
    assert changes["changes"] == []
    changes = importer.get(
        "changes", baseline="c0001", contender="c0002", metric="time", project="red"
    )
    (only,) = changes["changes"]
    assert only["case"]["source"] == "asv"


def test_verify_sees_a_changed_point_document_and_series(client: TestClient) -> None:
    importer = Importer(client)
    importer.new([point(0), point(1)])
    for broken in (
        update(Point).where(Point.revision == "c0000").values(value=9.0),
        update(ImportedPoint).values(document="{}"),
        update(SeriesRow).values(source="other"),
    ):
        with importer.database.session(write=True) as session:
            session.execute(broken)
            assert not verify.invariants.check(session).kept
            session.rollback()
    assert verify.verify(importer.database).kept
