"""The explorer: which series an address names, what is drawn of them, and what it says."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from builders import kept_states
from builders import long_series as long
from builders.nights import Team
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as some
from sqlalchemy import update

from benchmarks.contracts import Case
from service.dashboard.figures import decimate
from service.database.session import Database
from service.models import EnvironmentRow, Point


@given(
    values=some.lists(some.floats(-1e9, 1e9), min_size=1, max_size=600),
    limit=some.integers(10, 80),
    data=some.data(),
)
def test_thinning_out_keeps_ends_extremes_and_what_it_is_told_to_keep(
    values: list[float], limit: int, data: some.DataObject
) -> None:
    keep = data.draw(some.sets(some.integers(0, len(values) - 1), max_size=limit))
    array = np.array(values)
    kept = decimate(array, limit, sorted(keep))
    assert keep | {0, len(values) - 1} <= set(kept.tolist())
    assert (array[kept].min(), array[kept].max()) == (array.min(), array.max())
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert len(kept) <= max(limit, 4) + len(keep)


def test_what_must_be_kept_is_thinned_out_where_it_is_everything() -> None:
    values = np.sin(np.arange(50_000.0))
    kept = decimate(values, 200, np.arange(50_000))
    assert len(kept) <= 400
    assert values[kept].max() == values.max()


def figure(client: TestClient, query: str) -> dict[str, Any]:
    answer = client.get(f"/explore/figure?{query}")
    assert answer.status_code == 200, answer.text
    read: dict[str, Any] = answer.json()
    return read


def lines(drawn: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The traces of points that count, by the name of their series."""
    return {trace["name"]: trace for trace in drawn["data"] if "name" in trace}


def changes(drawn: dict[str, Any]) -> list[dict[str, Any]]:
    return [t for t in drawn["data"] if "triangle" in str(t.get("marker", {}).get("symbol"))]


@pytest.fixture
def nights(database: Database) -> None:
    """A database after those nights."""
    kept_states.bring(database, "nights of the explorer", lambda: live_nights(database))


def live_nights(database: Database) -> None:
    """Fifteen nights of two cases on two workers; one case becomes slower, one driver newer."""
    cases = (
        Case(workload="unet", preset="full"),
        Case(workload="resnet50", preset="full", axes={"precision": "bf16"}),
    )
    team = Team(
        database,
        lambda case, code, _worker, _night: 95.0 if case.axes and code >= 10 else 100.0,
        lambda night: {"sw.driver": "570" if night < 5 else "575"},
        ("a", "b"),
        cases=cases,
        gpus={"a": "NVIDIA H200", "b": "NVIDIA H100"},
    )
    for night in range(15):
        team.night(night)


@pytest.mark.both_databases(slow="postgresql")
@pytest.mark.usefixtures("nights")
def test_nights_are_drawn_with_levels_changes_and_what_changed_for_all(client: TestClient) -> None:
    drawn = figure(client, "workload=unet&workload=resnet50")
    assert len(lines(drawn)) == 4
    assert {name.split(" · ")[0] for name in lines(drawn)} == {"unet", "resnet50"}
    (steps,) = changes(drawn)
    assert len(steps["x"]) == 2, "the slower case on either GPU"
    assert "worse" in steps["text"][0]
    (mark,) = drawn["layout"]["annotations"]
    assert mark["text"] == "driver"
    assert drawn["said"][0] == "60 points of 4 series."
    assert "sw.driver 570 → 575" in drawn["said"][1]


def test_what_changed_on_one_of_two_workers_is_not_marked_for_all(
    database: Database, client: TestClient
) -> None:
    with database.writing() as session:
        long.prepare(session, workers=("a", "b"))
        for digest, driver in (("old", "570"), ("new", "575")):
            facts = {"sw.driver": driver}
            session.add(EnvironmentRow(digest=digest, facts=facts, first_seen_at=long.START))
        session.flush()
        for worker, place in (("a", 0), ("b", 1)):
            numbers = range(place, 40, 2)
            long.add(session, dict.fromkeys(numbers, 100.0), worker, place=place)
        session.execute(update(Point).values(environment="old"))
        later = update(Point).where(Point.worker == "a", Point.revision >= "r00020")
        session.execute(later.values(environment="new"))
    assert figure(client, "workload=resnet50")["layout"]["annotations"] == []
    only = figure(client, "workload=resnet50&worker=a")
    assert [mark["text"] for mark in only["layout"]["annotations"]] == ["driver"]
    assert sum(point is not None for point in lines(only).popitem()[1]["x"]) == 20


@pytest.fixture
def histories(database: Database) -> None:
    """Two analysed series of 44 points; one of them drops."""
    with database.writing() as session:
        long.prepare(session)
        values = dict(enumerate([*long.noisy(long.STEADY), *long.noisy(long.DROPPED)]))
        long.add(session, values)
        long.add(session, dict(enumerate([50.0] * 32)), series_id=long.OTHER, place=1)
        long.add(session, {40: 60.0}, disturbed="throttled")
        long.look(session)


@pytest.mark.usefixtures("histories")
def test_facets_choose_series_and_defaults_count_as_settings(client: TestClient) -> None:
    assert len(lines(figure(client, "setting=precision%3Dfp32"))) == 1
    assert len(lines(figure(client, "setting=precision%3Dfp32&setting=precision%3Dbf16"))) == 2
    assert len(lines(figure(client, "setting=precision%3Dbf16&hardware=NVIDIA+H200"))) == 1
    assert len(lines(figure(client, "workload=unet"))) == 0
    assert len(lines(figure(client, f"workload=unet&series={long.SERIES}"))) == 1
    assert figure(client, "")["data"] == []


@pytest.mark.usefixtures("histories")
def test_a_disturbed_point_is_hollow_and_says_why(client: TestClient) -> None:
    drawn = figure(client, f"series={long.SERIES}")
    (hollow,) = (t for t in drawn["data"] if t.get("marker", {}).get("symbol") == "circle-open")
    assert "disturbed: throttled" in hollow["text"][0]


@pytest.mark.usefixtures("histories")
@pytest.mark.parametrize(
    ("against", "first", "last"),
    [("first", 100, 95), ("revision&base=r00000", 100, 95), ("level", 105.2, 100)],
)
def test_values_are_shown_against_a_baseline(
    client: TestClient, against: str, first: float, last: float
) -> None:
    drawn = figure(client, f"series={long.SERIES}&against={against}")
    values = [value for value in lines(drawn).popitem()[1]["y"] if value is not None]
    assert values[0] == pytest.approx(first, abs=1)
    assert values[-1] == pytest.approx(last, abs=1)
    assert "%" in drawn["layout"]["yaxis"]["title"]["text"]


@pytest.mark.usefixtures("histories")
def test_a_series_without_the_baseline_is_not_drawn_and_named(client: TestClient) -> None:
    drawn = figure(client, "workload=resnet50&against=revision&base=r00040")
    assert len(lines(drawn)) == 0, "one has no point there, and the other a disturbed one"
    assert "Not drawn, without a value above zero at r00040" in drawn["said"][1]


@pytest.mark.usefixtures("histories")
def test_dates_and_revisions_bound_what_is_shown(client: TestClient) -> None:
    since = (long.placed_at(30)).strftime("%Y-%m-%dT%H:%M")
    assert figure(client, f"series={long.SERIES}&since={since}")["said"] == [
        "3 points of 1 series."
    ]
    some = figure(client, f"series={long.SERIES}&first=r00003&last=r00005&x=order")
    assert lines(some).popitem()[1]["x"] == [0, 1, 2]
    assert some["layout"]["xaxis"]["ticktext"] == ["r00003", "r00004", "r00005"]
    assert "no revision" not in client.get("/explore?first=r00003").text
    assert "was ever submitted" in client.get("/explore?first=unknown1").text


@pytest.mark.parametrize("query", ["since=x", "since=0001-01-01", "point=a.b.c", "against=me"])
def test_what_an_address_cannot_mean_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/explore?{query}").status_code == 422


@pytest.mark.usefixtures("histories")
def test_small_multiples_have_a_panel_each_and_fewer_columns_where_it_is_narrow(
    client: TestClient,
) -> None:
    wide = figure(client, "workload=resnet50&panels=true&width=1200")["layout"]
    narrow = figure(client, "workload=resnet50&panels=true&width=390")["layout"]
    assert wide["xaxis2"]["domain"][0] > 0.5
    assert narrow["xaxis2"]["domain"][0] == 0
    assert narrow["height"] > wide["height"]


def test_a_long_history_is_thinned_out_without_losing_its_extremes_or_its_change(
    database: Database, client: TestClient
) -> None:
    with database.writing() as session:
        long.prepare(session)
        values = long.noisy([100.0] * 3_000 + [90.0] * 3_000)
        values[1_234], values[4_321] = 70.0, 130.0
        long.add(session, dict(enumerate(values)))
        long.look(session)
    drawn = figure(client, f"series={long.SERIES}")
    (line,) = lines(drawn).values()
    assert {70.0, 130.0} <= set(line["y"])
    assert len(line["x"]) < 4_200
    assert "6,000 points of 1 series" in drawn["said"][0]
    (steps,) = changes(drawn)
    assert len(steps["x"]) == 1
    zoomed = figure(
        client,
        f"series={long.SERIES}&since={long.placed_at(1_200):%Y-%m-%dT%H:%M}"
        f"&until={long.placed_at(1_200) + timedelta(days=99):%Y-%m-%dT%H:%M}",
    )
    assert zoomed["said"] == ["100 points of 1 series."]


EARLIER, LATER = "\u2039 Earlier", "Later \u203a"


def links(client: TestClient, path: str) -> dict[str, str]:
    found = re.findall(r'<a [^>]*href="([^"]+)"[^>]*>([^<]+)</a>', client.get(path).text)
    return {text.strip(): href.replace("&amp;", "&") for href, text in found}


@pytest.mark.both_databases(slow="postgresql")
@pytest.mark.usefixtures("nights")
def test_a_point_leads_to_its_last_good_and_its_neighbours(client: TestClient) -> None:
    (one,) = client.get("/api/v1/series?metric=throughput&workload=resnet50&limit=1").json()[
        "items"
    ]
    newest = client.get(f"/api/v1/series/{one['id']}").json()["points"][-1]
    path = f"/explore?series={one['id']}&point={one['id']}.{newest['result_id']}"
    text = client.get(path).text
    assert "Change 14" in text, "the title of its revision"
    assert "by Ada" in text
    offered = links(client, path)
    assert LATER not in offered
    earlier = client.get(offered[EARLIER]).text
    assert "Change 13" in earlier
    pair = client.get(offered["Compare with its last good"]).text
    assert "Two points" in pair
    assert "Change 9" in pair, "the last revision before the drop"
    assert "/compare/kernels?baseline=" in pair


@pytest.mark.usefixtures("histories")
def test_two_points_of_two_series_have_a_ratio(client: TestClient) -> None:
    one, other = (f"{long.SERIES}.{long.result_of(0)}", f"{long.OTHER}.{long.result_of(0, 1)}")
    text = client.get(f"/explore?point={one}&other={other}").text
    assert "Two points" in text
    assert re.search(r"is <b>0\.\d+.{1,2}</b> the first", text)
    gone = client.get(f"/explore?point={'a' * 32}.{'b' * 32}")
    assert gone.status_code == 200
    assert "There is no such point" in gone.text


@pytest.mark.usefixtures("histories")
def test_every_point_is_in_the_file(client: TestClient) -> None:
    answer = client.get("/explore/points.csv?workload=resnet50&first=r00010")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 22 + 22 + 1
    assert {row["case"] for row in rows} == {case.key for case in long.CASES.values()}
    assert [row["disturbed"] for row in rows if row["disturbed"]] == ["throttled"]


@pytest.mark.usefixtures("nights")
def test_revisions_are_offered_by_name_title_or_author(client: TestClient) -> None:
    assert 'value="r07"' in client.get("/explore/revisions?first=change+7").text
    assert "<option" not in client.get("/explore/revisions?last=nobody").text


@pytest.mark.usefixtures("nights")
def test_the_axis_of_revisions_has_date_and_message_for_each_that_it_names(
    client: TestClient,
) -> None:
    layout = figure(client, "workload=unet&x=order")["layout"]
    hovers = [one["hovertext"] for one in layout["annotations"] if "width" in one]
    names = layout["xaxis"]["ticktext"]
    assert [text.split(" · ")[0] for text in hovers] == names != []
    assert all("<br>Change " in text for text in hovers)


@pytest.mark.usefixtures("nights")
def test_without_scripts_the_form_and_the_table_hold_the_choice(client: TestClient) -> None:
    text = client.get("/explore?workload=resnet50&against=first").text
    assert '<input type="hidden" name="workload" value="resnet50">' in text
    assert '<option value="first" selected>' in text
    assert text.count("<tr data-series=") == 2
    assert "% worse" in text
    without = links(client, "/explore?workload=resnet50&against=first")
    assert "/explore?against=first" in without.values() or "Begin anew" in without
    series = client.get("/api/v1/series?metric=throughput&limit=1").json()["items"][0]
    assert "/explore?series=" in client.get(f"/series/{series['id']}").text


def test_nothing_measured_is_said(empty_pages: TestClient) -> None:
    assert "Nothing has been measured yet" in empty_pages.get("/explore").text
