"""Levels and changes over a history: where they are drawn, and that nothing hostile is in them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
import pytest
from builders.history_plans import HOSTILE
from builders.series import point, series
from hypothesis import given
from hypothesis import strategies as st

from service.dashboard import figures
from service.dashboard.figures import Analysed, Step
from service.dashboard.figures.frame import TOOLS
from service.dashboard.figures.points import BEFORE


def read(figure: figures.Figure) -> Any:
    """The figure as the browser parses it."""
    return orjson.loads(str(figures.embed(figure)))


def step(number: int, effect: float, **more: Any) -> Step:
    """A change whose first point is ``r<number>``, where higher is better."""
    at = point(number, 0.0)
    fields = {"result_id": at.result_id, "at": at.revision_at, "improvement": effect > 0}
    return Step(effect=effect, **(fields | more))


def levels_of(drawn: Any) -> list[tuple[float, float, float]]:
    """From where to where each level is drawn, and how high."""
    lines = [each for each in drawn["layout"]["shapes"] if each["yref"] == "y"]
    assert all(each["y0"] == each["y1"] for each in lines)
    return [(each["x0"], each["x1"], each["y0"]) for each in lines]


def marks_of(drawn: Any) -> list[Any]:
    shapes = drawn["layout"]["shapes"]
    return [each for each in shapes if each["yref"] == "paper" and "dash" not in each["line"]]


LEVELS = [100.0] * 4 + [90.0] * 3 + [99.0] * 3
HISTORY = series(*(point(number, value) for number, value in enumerate(LEVELS)))
BOTH = (step(4, -0.1), step(7, 0.1, finding="f" * 32))


def test_levels_are_steps_that_meet_between_the_points() -> None:
    drawn = read(figures.history(HISTORY, analysed=Analysed(BOTH)))
    assert levels_of(drawn) == [(0.0, 3.5, 100.0), (3.5, 6.5, 90.0), (6.5, 9.0, 99.0)]
    assert [mark["x0"] for mark in marks_of(drawn)] == [3.5, 6.5]


def test_a_change_says_how_large_it_is_and_leads_to_its_finding() -> None:
    down, up = read(figures.history(HISTORY, analysed=Analysed(BOTH)))["layout"]["annotations"]
    assert down["text"].replace("\u00a0", " ") == "▼ 10.0 %"
    assert up["text"].startswith(f'<a href="/findings/{"f" * 32}" target="_self">▲')
    assert (down["font"]["color"], up["font"]["color"]) == ("var(--worse)", "var(--better)")


def test_labels_of_changes_stand_above_those_of_environments_and_below_the_toolbar() -> None:
    points = [point(n, 10.0) for n in range(10)]
    mark = figures.EnvironmentMark(points[4], points[5], "env 1")
    analysed = Analysed((step(5, -0.1),), environments=(mark,))
    layout = read(figures.history(series(*points), analysed=analysed))["layout"]
    environment, change = layout["annotations"]
    assert (environment["text"], environment["x"]) == ("env 1", change["x"])
    assert change["yshift"] >= 14
    assert layout["margin"]["t"] >= TOOLS + change["yshift"] + 14


def test_a_level_that_began_before_what_is_shown_is_drawn_from_its_edge() -> None:
    late = series(*HISTORY.points[5:])
    drawn = read(figures.history(late, analysed=Analysed(BOTH)))
    assert levels_of(drawn) == [(0.0, 1.5, 90.0), (1.5, 4.0, 99.0)]


def test_a_level_lies_in_the_middle_of_its_points_whatever_strays() -> None:
    strays = {2: 10.0, 5: 900.0}
    points = [point(n, strays.get(n, value)) for n, value in enumerate(LEVELS)]
    drawn = read(figures.history(series(*points), analysed=Analysed(BOTH)))
    assert [level for _, _, level in levels_of(drawn)] == [100.0, 90.0, 99.0]


def test_a_stretch_of_excluded_points_has_no_level() -> None:
    points = [point(n, value, excluded=4 <= n < 7) for n, value in enumerate(LEVELS)]
    drawn = read(figures.history(series(*points), analysed=Analysed(BOTH)))
    assert levels_of(drawn) == [(0.0, 3.5, 100.0), (6.5, 9.0, 99.0)]


def test_by_date_a_change_stands_between_the_times_of_its_revisions() -> None:
    drawn = read(figures.history(HISTORY, figures.View(x="time"), Analysed(BOTH[:1])))
    (mark,) = marks_of(drawn)
    before, after = (HISTORY.points[at].revision_at.isoformat() for at in (3, 4))
    assert before < mark["x0"] < after


def test_a_history_without_a_change_has_the_level_of_its_analysed_points() -> None:
    points = [*(point(n, 100.0 + n % 3) for n in range(9)), point(9, 500.0, excluded=True)]
    drawn = read(figures.history(series(*points), analysed=Analysed(one_level=True)))
    assert levels_of(drawn) == [(0.0, 9.0, 101.0)]
    assert levels_of(read(figures.history(series(*points)))) == []


def test_an_excluded_point_is_hollow_apart_from_the_line_and_says_why() -> None:
    out = point(3, 50.0, excluded=True)
    analysed = Analysed(reasons={out.result_id: "the fan & " + HOSTILE})
    line, hollow = read(figures.history(series(*HISTORY.points[:3], out), analysed=analysed))[
        "data"
    ]
    assert line["x"] == ["r0", "r1", "r2"]
    assert hollow["x"] == ["r3"]
    assert hollow["marker"]["symbol"] == "circle-open"
    result, said = hollow["customdata"][0]
    assert result == out.result_id
    assert "<b>excluded</b>: the fan &amp; &lt;script&gt;" in said
    assert "<script>" not in said


def test_a_disturbed_point_is_hollow_and_says_what_disturbed_it() -> None:
    out = point(3, 50.0, disturbed="throttled, other_processes")
    line, hollow = read(figures.history(series(*HISTORY.points[:3], out)))["data"]
    assert line["x"] == ["r0", "r1", "r2"]
    assert (hollow["x"], hollow["marker"]["symbol"]) == (["r3"], "circle-open")
    said = hollow["customdata"][0][1]
    assert "<b>not analysed</b>: disturbed by throttled, other_processes" in said


def test_a_stretch_of_disturbed_points_has_no_level() -> None:
    out = dict.fromkeys((4, 5, 6), "throttled")
    points = [point(n, value, disturbed=out.get(n, "")) for n, value in enumerate(LEVELS)]
    drawn = read(figures.history(series(*points), analysed=Analysed(BOTH)))
    assert levels_of(drawn) == [(0.0, 3.5, 100.0), (6.5, 9.0, 99.0)]


def test_a_long_reason_is_cut_in_the_hover() -> None:
    out = point(1, 50.0, excluded=True)
    analysed = Analysed(reasons={out.result_id: "x" * 500})
    (_, hollow) = read(figures.history(series(point(0, 1.0), out), analysed=analysed))["data"]
    assert "x" * 120 + "…" in hollow["customdata"][0][1]
    assert "x" * 121 not in hollow["customdata"][0][1]


def test_before_and_after_shows_thirty_points_before_the_change_and_all_since() -> None:
    values = [100.0] * 50 + [95.0] * 25
    long = series(*(point(number, value) for number, value in enumerate(values)))
    chosen = step(50, -0.05, chosen=True)
    drawn = read(figures.before_after(long, Analysed((chosen,))))
    assert drawn["layout"]["xaxis"]["categoryarray"] == [f"r{n}" for n in range(50 - BEFORE, 75)]
    (mark,) = marks_of(drawn)
    assert (mark["x0"], mark["line"]["width"]) == (BEFORE - 0.5, 2.5)
    assert drawn["layout"]["annotations"][0]["text"].startswith("<b>▼")


def test_a_change_whose_first_point_is_gone_stands_where_it_was() -> None:
    missing = step(4, -0.1, result_id="gone", chosen=True)
    left = series(*(each for each in HISTORY.points if each.revision != "r4"))
    drawn = read(figures.before_after(left, Analysed((missing, BOTH[1]))))
    assert levels_of(drawn) == [(0.0, 3.5, 100.0), (3.5, 5.5, 90.0), (5.5, 8.0, 99.0)]


@given(
    st.integers(0, 40),
    st.lists(st.integers(-5, 45), max_size=6, unique=True).map(sorted),
    st.sampled_from(["order", "time"]),
)
def test_levels_never_overlap_and_cover_all_points(
    count: int, places: list[int], x: figures.XAxis
) -> None:
    history = series(*(point(number, 100.0 + number) for number in range(count)))
    steps = tuple(step(number, -0.1) for number in places)
    drawn = read(figures.history(history, figures.View(x=x), Analysed(steps, one_level=True)))
    told = levels_of(drawn)
    assert bool(told) == (count > 0)
    for (_, end, _), (begin, _, _) in pairwise(told):
        assert end == begin
    if told and x == "order":
        assert (told[0][0], told[-1][1]) == (0.0, pytest.approx(count - 1))
