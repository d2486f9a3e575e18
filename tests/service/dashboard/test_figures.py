"""Figures are plain values that hold what a reader needs and nothing hostile."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest
from builders import history_plans as seeds
from builders.series import point, series
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.contracts import Result, Trace
from service.dashboard import figures
from service.dashboard.figures import Analysed
from service.dashboard.figures.frame import CONFIG, TOOLS, decimate
from service.dashboard.figures.places import XAxis
from service.dashboard.sparkline import HEIGHT, sparkline, stacked_bar


def read(figure: figures.Figure | None) -> Any:
    """The figure as the browser parses it."""
    assert figure is not None
    return orjson.loads(str(figures.embed(figure)))


def result(plan: seeds.Plan = seeds.PLANS[5], number: int = 39) -> Result:
    at = point(0, 1.0).measured_at
    return seeds.measured(plan, number, at, np.random.default_rng(1))


@given(
    arrays(np.float64, st.integers(1, 6_000), elements=st.floats(-1e6, 1e6)), st.integers(4, 2_000)
)
def test_decimation_keeps_ends_and_extremes_within_its_limit(
    values: np.ndarray[Any, np.dtype[np.float64]], limit: int
) -> None:
    kept = decimate(values, limit)
    assert len(kept) <= max(limit, 1)
    assert (np.diff(kept) > 0).all()
    assert {kept[0], kept[-1]} == {0, len(values) - 1}
    assert values[kept].min() == values.min()
    assert values[kept].max() == values.max()


def test_a_chart_never_offers_to_upload_anything() -> None:
    assert "sendChartToCloud" in CONFIG["modeBarButtonsToRemove"]  # type: ignore[operator]
    assert CONFIG["plotlyServerURL"] == ""
    assert CONFIG["displaylogo"] is False
    assert CONFIG["displayModeBar"] == "hover"
    assert read(figures.history(series(point(1, 5.0))))["config"] == CONFIG


def test_a_history_is_ordered_by_revision_with_its_intervals() -> None:
    drawn = read(figures.history(series(point(1, 100.0), point(2, 110.0), point(3, 90.0))))
    (line,) = drawn["data"]
    assert line["x"] == ["r1", "r2", "r3"]
    assert line["y"] == [100.0, 110.0, 90.0]
    assert line["error_y"]["array"] == pytest.approx([1.0, 1.1, 0.9])
    assert drawn["layout"]["xaxis"]["categoryarray"] == ["r1", "r2", "r3"]


def test_two_measurements_of_one_revision_are_not_joined_by_a_line() -> None:
    again = point(2, 120.0, measured_at=point(3, 0.0).measured_at)
    drawn = read(figures.history(series(point(1, 100.0), point(2, 110.0), again, point(3, 90.0))))
    (line,) = drawn["data"]
    assert line["y"] == [100.0, 110.0, None, 120.0, 90.0]
    assert line["x"] == ["r1", "r2", None, "r2", "r3"]
    assert len(line["error_y"]["array"]) == len(line["customdata"]) == 5


def test_nothing_is_drawn_where_the_toolbar_appears() -> None:
    charts = (figures.history(series(point(1, 5.0))), figures.step_histogram(result()))
    for chart in (*charts, figures.step_times(result()), figures.telemetry(result())):
        assert read(chart)["layout"]["margin"]["t"] >= TOOLS


def test_hovering_tells_revision_value_interval_worker_and_environment() -> None:
    hover = read(figures.history(series(point(1, 1234.0))))["data"][0]["customdata"][0][1]
    for said in ("r1", "1,234", "± 1.0", "3 processes", "2026-01-02", "on w", "eeeeeeee"):
        assert said in hover.replace("\u00a0", " ")


def test_an_environment_change_is_marked_between_its_two_revisions() -> None:
    points = [point(n, 10.0) for n in range(1, 6)]
    mark = figures.EnvironmentMark(points[1], points[2], "env 1 on <b>")
    drawn = read(figures.history(series(*points), analysed=Analysed(environments=(mark,))))
    (line,) = drawn["layout"]["shapes"]
    assert line["x0"] == 1.5  # after r2, the second category
    assert drawn["layout"]["annotations"][0]["text"] == "env 1 on &lt;b&gt;"
    later = read(figures.history(series(*points[2:]), analysed=Analysed(environments=(mark,))))
    assert later["layout"]["shapes"] == []


@pytest.mark.parametrize("x", ["order", "time"])
def test_labels_of_environments_that_would_lie_over_each_other_are_one(x: XAxis) -> None:
    points = [point(n, 10.0) for n in range(1, 41)]
    marks = tuple(
        figures.EnvironmentMark(points[at], points[at + 1], f"env {number} on node-a")
        for number, at in enumerate((4, 5, 7, 30), 1)
    )
    drawn = read(figures.history(series(*points), figures.View(x=x), Analysed(environments=marks)))
    assert len(drawn["layout"]["shapes"]) == 4
    assert [label["text"] for label in drawn["layout"]["annotations"]] == [
        "env 1 on node-a, 2 more",
        "env 4 on node-a",
    ]


def test_so_many_environment_changes_that_nobody_could_read_them_are_not_marked() -> None:
    points = [point(n, 10.0) for n in range(1, 100)]
    marks = tuple(figures.EnvironmentMark(*pair, "env") for pair in pairwise(points))
    drawn = read(figures.history(series(*points), analysed=Analysed(environments=marks)))
    assert drawn["layout"]["shapes"] == []


def test_a_zoom_is_kept_by_the_names_of_its_revisions() -> None:
    history = series(*(point(n, 10.0) for n in range(1, 10)))
    view = figures.View(start="r3", end="r6", low=9.0, high=11.0)
    layout = read(figures.history(history, view))["layout"]
    assert layout["xaxis"]["range"] == [1.5, 5.5]
    assert layout["yaxis"]["range"] == [9.0, 11.0]
    unknown = read(figures.history(history, figures.View(start="r3", end="gone")))
    assert "range" not in unknown["layout"]["xaxis"]


def test_by_date_points_stand_at_the_time_of_their_revision() -> None:
    drawn = read(figures.history(series(point(1, 5.0), point(2, 5.0)), figures.View(x="time")))
    assert drawn["layout"]["xaxis"]["type"] == "date"
    assert drawn["data"][0]["x"][0].startswith("2026-01-02T00:00:00")


def test_two_hashes_with_the_same_beginning_stay_two_revisions() -> None:
    names = ["0123456789" + "a" * 30, "0123456789" + "b" * 30]
    drawn = read(figures.history(series(*(point(n, 5.0, revision=r) for n, r in enumerate(names)))))
    assert len(set(drawn["data"][0]["x"])) == 2
    assert drawn["state"]["names"] == names


def test_a_long_history_is_drawn_with_a_band_and_few_points() -> None:
    points = [point(n, 100.0 + n % 7, revision=f"r{n}") for n in range(10_000)]
    low, high, line = read(figures.history(series(*points)))["data"]
    assert len(line["x"]) <= 2_000
    assert "error_y" not in line
    assert high["fill"] == "tonexty"
    assert len(low["x"]) == len(high["x"])


def test_noise_is_not_drawn_as_mountains() -> None:
    points = [point(n, 100.0 + 0.01 * (n % 2), low=None, high=None) for n in range(1, 9)]
    options = read(figures.history(series(*points)))["layout"]["yaxis"]["autorangeoptions"]
    low, high = options["include"]
    assert high - low == pytest.approx(2.0, rel=0.01)


def test_hostile_text_in_a_figure_cannot_leave_its_script_element() -> None:
    embedded = figures.embed(figures.history(series(point(1, 1.0, worker="</script><b>&"))))
    assert "<" not in embedded
    assert ">" not in embedded
    assert "&lt;/script&gt;" in orjson.loads(str(embedded))["data"][0]["customdata"][0][1]


def test_an_empty_series_is_an_empty_chart() -> None:
    assert read(figures.history(series()))["data"][0]["x"] == []


def test_every_step_stands_in_the_histogram() -> None:
    told = result()
    for bars, name in zip(
        read(figures.step_histogram(told))["data"], ("full", "synth"), strict=True
    ):
        steps = sum(getattr(replicate, name).steps for replicate in told.replicates)
        assert sum(bars["y"]) == steps
    slow = [
        text for bars in read(figures.step_histogram(told))["data"] for text in bars["customdata"]
    ]
    assert any("or slower" in text for text in slow)


def test_step_times_have_a_line_for_each_process_and_pass() -> None:
    lines = read(figures.step_times(result()))["data"]
    assert len(lines) == 6
    assert [line["showlegend"] for line in lines].count(True) == 2


def test_telemetry_shows_each_channel_that_was_read_below_the_steps_of_the_same_seconds() -> None:
    drawn = read(figures.telemetry(result()))
    titles = [note["text"] for note in drawn["layout"]["annotations"]]
    assert titles[1:] == ["SM clock, MHz", "Power, W", "Temperature, °C", "Utilization, %"]
    assert titles[0] == "Step time, ms"
    assert len(drawn["data"]) == 5 * 3
    steps = result().replicates[1].full.step_trace
    assert drawn["data"][1]["x"][-1] == pytest.approx(np.frombuffer(steps.unpacked(), "f4").sum())


def test_what_was_not_measured_has_no_figure() -> None:
    failed = result().model_copy(update={"replicates": ()})
    assert figures.step_histogram(failed) is None
    assert figures.step_times(failed) is None
    assert figures.telemetry(failed) is None
    assert figures.telemetry(result(seeds.PLANS[-1])) is None  # on a CPU


def test_a_damaged_trace_costs_its_curve_and_not_the_page() -> None:
    told = result()
    first = told.replicates[0]
    broken = first.full.model_copy(update={"step_trace": Trace(n=5, data="AAAA")})
    replicate = first.model_copy(update={"full": broken})
    lines = read(figures.step_times(told.model_copy(update={"replicates": (replicate,)})))["data"]
    assert len(lines) == 1


def test_a_sparkline_says_in_words_what_it_draws_and_escapes_them() -> None:
    drawn = sparkline([1.0, 2.0, 3.0], 'from "1" to <3>')
    assert "&lt;3&gt;" in drawn
    assert sparkline([], "none") == ""
    assert "NaN" not in sparkline([5.0, 5.0], "flat")


def heights(drawn: str) -> list[float]:
    """The heights of a sparkline's points in pixels from the top."""
    found = re.search(r'polyline points="([^"]+)"', drawn)
    assert found
    return [float(spot.partition(",")[2]) for spot in found[1].split()]


def test_a_calm_series_has_a_calm_sparkline() -> None:
    noise = heights(sparkline([100.0, 100.4, 99.6, 100.2], "calm"))
    assert max(noise) - min(noise) < HEIGHT / 4
    wide = heights(sparkline([100.0, 103.0, 97.0, 101.0], "calm", interval=12.0))
    assert max(wide) - min(wide) < HEIGHT / 4
    fall = heights(sparkline([100.0, 100.2, 99.9, 80.0], "a fall"))
    assert max(fall) - min(fall) > HEIGHT / 2


def test_a_stacked_bar_fills_its_share_of_the_whole() -> None:
    drawn = stacked_bar([("stall", 1.0), ("work", 1.0)], 4.0, "half")
    assert drawn.count('width="250.00"') == 2
    assert stacked_bar([("work", 0.0)], 0.0, "nothing") == ""
