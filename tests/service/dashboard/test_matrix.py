"""The matrix puts cases side by side, says what a setting does, and leads to the fastest case."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import orjson
import pytest
from builders import history
from builders import long_series as long
from builders.seeded import Seeded
from builders.series import point, series
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.catalog import catalog
from benchmarks.catalog.suites import suite
from benchmarks.contracts import Case
from service.dashboard import cases, figures, interactions, matrix
from service.dashboard.cases import CaseGroup
from service.models import SeriesRow
from service.wording import formats

PLAIN, LAYOUT = {"workers": "4"}, {"workers": "4", "layout": "channels_last"}
HALF = {"workers": "4", "precision": "bf16"}
BOTH = LAYOUT | HALF
MORE = BOTH | {"compile": "default"}


def measured(axes: dict[str, str], value: float, workload: str = "resnet50") -> Any:
    case = Case(workload=workload, preset="full", axes=axes)
    ends = {"low": value * 0.99, "high": value * 1.01}
    return series(point(1, value, **ends), id=case.key[:60], case=case)


def group(*members: Any) -> CaseGroup:
    (one,) = cases.groups(members)
    return one


LADDER = (
    measured(PLAIN, 100.0),
    measured(HALF, 200.0),
    measured(LAYOUT, 150.0),
    measured(BOTH, 320.0),
    measured(MORE, 480.0),
)


def test_a_setting_is_held_against_the_cases_that_differ_in_nothing_else() -> None:
    found = {one.setting.axis: one for one in matrix.effects(group(*LADDER))}
    assert set(found) == {"precision", "layout", "compile"}
    assert found["precision"].ratio == pytest.approx((2.0 * 320 / 150) ** 0.5)
    assert (found["precision"].pairs, found["compile"].pairs) == (2, 1)
    assert found["precision"].low == pytest.approx(2.0)
    assert found["precision"].high == pytest.approx(320 / 150)
    assert found["compile"].low < 1.5 < found["compile"].high
    assert list(found) == ["precision", "layout", "compile"]


DESIGN = next(one for one in suite("full").designs if one.workload == "resnet50")


def designed(runs: int = 16) -> list[Any]:
    """Cases of the design: bf16 doubles, and channels_last adds half beside bf16 alone."""
    found, noise = [], Random(3)
    for one in DESIGN.cases()[:runs]:
        axes = catalog.normalise(one).axes
        half, last = axes.get("precision") == "bf16", axes.get("layout") == "channels_last"
        value = 100.0 * (2.0 if half else 1.0) * (1.5 if half and last else 1.0)
        found.append(measured(dict(axes), value * noise.gauss(1.0, 0.002)))
    return found


def test_two_settings_are_held_against_what_each_brings_alone() -> None:
    (design,) = interactions.designed(group(*designed()))
    assert (design.suite, design.runs, design.missing) == ("full", 16, 0)
    first, *others = design.interactions
    assert set(first.settings) == {"precision=bf16", "layout=channels_last"}
    assert first.term.ratio == pytest.approx(1.5, rel=0.01)
    assert first.term.low < 1.5 < first.term.high
    assert sorted(first.alone) == [pytest.approx(1.0, 0.01), pytest.approx(2.0, 0.01)]
    assert first.together == pytest.approx(3.0, 0.01)
    assert (first.start, first.high) == (500, 1000)
    assert 500 < first.low < first.end < 1000
    assert [one.term.clear for one in others] == [False] * 9


def test_a_design_tells_nothing_before_all_of_it_is_measured() -> None:
    (design,) = interactions.designed(group(*designed(15)))
    assert (design.missing, design.interactions) == (1, ())
    alone = measured({"workers": "16", "precision": "bf16"}, 900.0)
    assert interactions.designed(group(alone)) == []


def test_the_ladder_takes_the_smallest_steps_that_were_measured() -> None:
    steps = matrix.ladder(group(*LADDER))
    assert [one.row.latest.value for one in steps] == [100.0, 200.0, 320.0, 480.0]
    assert [[each.axis for each in one.added] for one in steps[1:]] == [
        ["precision"],
        ["layout"],
        ["compile"],
    ]
    assert [one.ratio.value if one.ratio else None for one in steps] == [
        None,
        *(pytest.approx(ratio) for ratio in (2.0, 1.6, 1.5)),
    ]
    assert (steps[1].start, steps[1].end) == (pytest.approx(100 / 480), pytest.approx(200 / 480))


def test_a_fastest_case_that_nothing_leads_to_is_no_ladder() -> None:
    alone = measured({"workers": "16", "precision": "bf16"}, 900.0)
    assert matrix.ladder(group(*LADDER, alone))[-1].row.latest.value == 480.0
    assert matrix.ladder(group(measured(PLAIN, 1.0), alone)) == []


def test_what_all_cases_of_a_workload_set_is_left_out_of_the_rows() -> None:
    groups = cases.groups([*LADDER, measured({"precision": "bf16"}, 7.0, "nanogpt"),
                           measured({}, 3.0, "nanogpt")])  # fmt: skip
    rows = matrix.heat_map(groups, "throughput", None)
    said = [[f"{one.axis}={one.value}" for one in row.settings] for row in rows]
    assert said[:3] == [[], ["precision=bf16"], ["layout=channels_last"]]
    assert [cell is not None for cell in rows[1].cells] == [True, True]
    assert [cell is not None for cell in rows[2].cells] == [False, True]
    shades = [row.cells[1].shade for row in rows if row.cells[1]]
    assert (shades[0], shades[-1]) == ("heat-0", f"heat-{matrix.SHADES}")


def test_a_change_is_coloured_where_its_interval_leaves_out_none() -> None:
    now = group(*LADDER)
    then = {
        row.series.id: point(0, row.latest.value * factor, low=low, high=high)
        for row, factor in zip(now.rows, (1.0, 1.2, 0.8, 1.004, 1.2), strict=True)
        for low, high in [
            (row.latest.value * factor * 0.99, row.latest.value * factor * 1.01)
        ]
    }  # fmt: skip
    cells = [row.cells[0] for row in matrix.heat_map([now], "change", then)]
    assert [cell.shade for cell in cells if cell] == [
        "",
        "is-worse",
        "is-better",
        "",
        "is-worse",
    ]


def test_a_case_without_a_point_at_the_older_revision_has_no_change() -> None:
    now = group(*LADDER)
    levels = [cases.LevelDifference(0.1, 1.0, 0.01)] * len(now.rows)
    rows = [replace(row, difference=one) for row, one in zip(now.rows, levels, strict=True)]
    now = replace(now, rows=tuple(rows))
    cells = [row.cells[0] for row in matrix.heat_map([now], "change", {})]
    assert {cell.text for cell in cells if cell} == {formats.DASH}
    assert all("nothing that counts was measured" in cell.explained for cell in cells if cell)
    level = [row.cells[0] for row in matrix.heat_map([now], "change", None)]
    assert {cell.text for cell in level if cell} == {formats.change(0.1)}


def test_groups_are_named_by_as_much_as_tells_them_apart() -> None:
    one = group(*LADDER)
    alike = [replace(one, preset="small"), one, replace(one, project="red")]
    named = matrix.names([replace(one, workload="unet"), *alike])
    assert named == ["unet", "resnet50 small", "resnet50 full", "resnet50 full red"]


@pytest.fixture
def two_projects(client: TestClient) -> TestClient:
    """One workload and preset in two projects, one of which is twice as fast."""
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        long.prepare(session)
        session.execute(update(SeriesRow).where(SeriesRow.id == long.OTHER).values(project="red"))
        long.add(session, {1: 100.0})
        long.add(session, {1: 200.0}, series_id=long.OTHER, place=1, project="red")
    return client


def test_a_project_is_looked_at_closely_by_its_name(two_projects: TestClient) -> None:
    text = two_projects.get("/matrix?workload=resnet50+full+red").text
    assert "<option>resnet50 full</option>" in text
    assert "<option selected>resnet50 full red</option>" in text


def test_a_revision_at_which_nothing_was_measured_is_told(two_projects: TestClient) -> None:
    page = "/matrix?show=change&since="
    text = two_projects.get(page + long.BEFORE_ALL).text
    assert f"Nothing that counts was measured here at {long.BEFORE_ALL}." in text
    assert "Nothing that counts" not in two_projects.get(page + long.revision_of(1)).text


def test_no_other_case_is_better_than_one_on_the_front_in_both() -> None:
    places = [(100.0, 10.0), (200.0, 10.0), (150.0, 5.0), (90.0, 5.0), (200.0, 10.0)]
    assert matrix.front(places) == [1, 2, 4]


def test_the_page_shows_what_it_was_asked_for(pages: TestClient, seeded: Seeded) -> None:
    text = pages.get("/matrix?workload=resnet50&hardware=NVIDIA+H200&cost=energy").text
    assert 'id="ladder">resnet50: the ladder' in text
    assert text.count('class="step"') >= 3
    drawn = re.search(r'<script type="application/json">(.*?)</script>', text)
    assert drawn
    chart = orjson.loads(drawn[1])
    assert chart["layout"]["xaxis"]["title"]["text"].startswith("Energy per item, ")
    runs = {each[0] for line in chart["data"] for each in line["customdata"]}
    assert seeded.ids["latest:" + history.PLANS[5].case.key] in runs
    for show in ("throughput", "speedup", "memory", "verdict", "change"):
        assert pages.get(f"/matrix?show={show}").text.count("<td class=") > 10
    since = history.revision_name(38)
    assert f"Change since {since}" in pages.get(f"/matrix?show=change&since={since}").text
    assert '<p class="note bad" role="alert">' in pages.get("/matrix?since=unheard").text


def test_a_front_needs_two_cases() -> None:
    only = figures.ParetoCase("r", "all defaults", 1.0, 1.0, best=True)
    assert figures.pareto([only], ("Throughput", "img/s"), ("Peak memory", "B")) is None
