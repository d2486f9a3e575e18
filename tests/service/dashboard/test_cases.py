"""The table of cases says what is new, against what, and how sure."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from builders.series import by_revision, point, series

from benchmarks.contracts import Bottleneck, Case, Direction, Verdict
from service.analysis.variance import Spread, Square
from service.dashboard import (
    cases,
    labels,
    page_templates,
    series_pages,
)
from service.schemas.series import SeriesPoint


def case(**axes: str) -> Case:
    return Case(workload="resnet50", preset="full", axes=axes)


def test_the_newest_revision_is_held_against_the_one_before() -> None:
    later = point(2, 0.0).measured_at + timedelta(hours=1)
    again = point(2, 104.0, measured_at=later)
    told = cases.change(series(point(1, 50.0), point(2, 100.0), again, point(3, 110.0)))
    assert told is not None
    assert told.change == pytest.approx(110 / 104 - 1)
    assert told.verdict.value == "faster"


def test_a_shorter_time_is_a_change_for_the_better() -> None:
    told = cases.change(series(point(1, 2.0), point(2, 1.0), direction=Direction.LOWER))
    assert told is not None
    assert told.change == pytest.approx(0.5)


def test_a_first_revision_has_nothing_to_be_compared_with() -> None:
    assert cases.change(series(point(1, 1.0), point(1, 2.0))) is None
    assert cases.change(series()) is None


def test_a_speed_up_is_over_the_same_input_with_defaults_elsewhere() -> None:
    plain = series(point(1, 100.0), id="a" * 32, case=case(workers="16"))
    fast = series(point(1, 650.0), id="b" * 32, case=case(workers="16", precision="bf16"))
    other = series(point(1, 10.0), id="c" * 32, case=case(workers="2", precision="bf16"))
    (group,) = cases.groups([fast, other, plain])
    rows = {row.series.id[0]: row for row in group.rows}
    assert rows["b"].speedup
    assert rows["b"].speedup.value == pytest.approx(6.5)
    assert rows["a"].is_baseline
    assert rows["c"].speedup is None
    assert not rows["c"].is_baseline


def test_a_speed_up_is_over_the_baseline_in_the_same_unit() -> None:
    fast = case(precision="bf16")
    found = [
        series(point(1, 100.0), id="a" * 32),
        series(point(3, 10.0), id="b" * 32, unit="sample/s"),
        series(point(1, 200.0), id="c" * 32, case=fast),
        series(point(3, 30.0), id="d" * 32, case=fast, unit="sample/s"),
    ]
    (group,) = cases.groups(found)
    told = {row.series.id[0]: row.speedup.value for row in group.rows if row.speedup}
    assert told == {"c": pytest.approx(2.0), "d": pytest.approx(3.0)}
    assert [row.series.id[0] for row in group.rows if row.is_baseline] == ["a", "b"]


def test_a_speed_up_in_time_is_the_shorter_time() -> None:
    slow = series(point(1, 4.0), direction=Direction.LOWER)
    fast = series(point(1, 2.0), direction=Direction.LOWER, case=case(precision="bf16"))
    told = cases.speedup(fast, slow)
    assert told
    assert told.value == pytest.approx(2.0)
    assert told.low is not None
    assert told.high is not None
    assert told.low < 2.0 < told.high


def test_a_speed_up_holds_two_measurements_of_one_revision_together() -> None:
    fast = case(precision="bf16")
    slow = series(point(1, 100.0), point(2, 200.0))
    told = cases.speedup(series(point(1, 300.0), point(2, 500.0), case=fast), slow)
    assert told
    assert (told.revision, told.value) == ("r2", pytest.approx(2.5))
    newer = cases.speedup(series(point(1, 300.0), point(3, 900.0), case=fast), slow)
    assert newer
    assert (newer.revision, newer.value) == ("r1", pytest.approx(3.0))
    assert cases.speedup(series(point(3, 900.0), case=fast), slow) is None


@pytest.mark.parametrize(
    ("base", "own", "sure"),
    [
        (point(1, 100.0), point(1, 150.0), True),
        (point(1, 100.0), point(1, 100.5), False),
        (point(1, 100.0), point(1, 150.0, interval="within_run"), False),
        (point(1, 100.0, low=None, high=None, interval="none"), point(1, 150.0), False),
    ],
)
def test_a_speed_up_is_sure_only_with_intervals_over_processes_that_leave_out_one(
    base: SeriesPoint, own: SeriesPoint, sure: bool
) -> None:
    told = cases.speedup(series(own, case=case(precision="bf16")), series(base))
    assert told
    assert told.sure is sure


def test_a_speed_up_that_may_be_noise_is_grey_and_called_unclear() -> None:
    parts = cast("Any", page_templates.TEMPLATES.get_template("_parts.html").module)
    told = cases.Speedup(1.01, 0.98, 1.04, "r1", sure=False)
    shown = parts.speedup(told, "r2")
    assert 'class="muted"' in shown
    assert "0.98\u00d7 to 1.04\u00d7" in shown
    assert ">unclear<" in shown
    assert ">at r1<" in shown
    sure = parts.speedup(replace(told, low=1.005, sure=True), "r1")
    assert "muted" not in sure
    assert "unclear" not in sure
    assert "at r1<" not in sure


def test_a_value_and_its_change_are_about_the_same_measurement() -> None:
    later = point(2, 0.0).measured_at + timedelta(hours=1)
    look = point(2, 500.0, measured_at=later, interval="within_run", replicates=1)
    kept = by_revision(series(point(1, 100.0), point(2, 110.0), look))
    assert [one.value for one in kept.points] == [100.0, 110.0]
    told = cases.change(kept)
    assert told
    assert told.contender == kept.points[-1]


NIGHT = Square(0.01**2, 1e6)
KNOWN = Spread(100.0, 100, 1.0, 1.0, 1.0, step=None, process=None, night=NIGHT, node=None)


@pytest.mark.parametrize(
    ("value", "direction", "change", "unusual"),
    [
        (101.0, Direction.HIGHER, 0.01, False),
        (95.0, Direction.HIGHER, -0.05, True),
        (95.0, Direction.LOWER, 0.05, True),
    ],
)
def test_a_value_is_held_against_its_level_by_what_a_night_varies(
    value: float, direction: Direction, change: float, *, unusual: bool
) -> None:
    told = cases.against_level(series(point(1, 50.0), point(2, value), direction=direction), KNOWN)
    assert told
    assert told.change == pytest.approx(change)
    assert told.reach == pytest.approx(0.02, rel=0.02)
    assert told.is_unusual is unusual


def test_a_series_without_a_level_is_held_against_the_revision_before() -> None:
    one = series(point(1, 50.0), point(2, 100.0))
    (group,) = cases.groups([one])
    assert group.rows[0].difference is None
    assert group.rows[0].change
    (group,) = cases.groups([one], cases.Beside(spreads={one.id: KNOWN}))
    assert group.rows[0].difference
    assert group.rows[0].change is None


def test_rows_are_sorted_by_what_findings_say_and_by_value() -> None:
    found = [
        series(point(1, value), id=letter * 32, case=case(precision=precision))
        for letter, value, precision in (
            ("a", 100.0, "bf16"),
            ("b", 200.0, "tf32"),
            ("c", 90.0, "fp16"),
        )
    ]
    spreads = {one.id: KNOWN for one in found}
    beside = cases.Beside(spreads=spreads, effects={"a" * 32: -0.5})

    def order(sort: str) -> list[str]:
        (group,) = cases.groups(found, beside, sort)
        return [row.series.id[0] for row in group.rows]

    assert order("value") == ["b", "a", "c"]
    assert order("change") == ["b", "a", "c"]
    beside = cases.Beside(spreads=spreads, effects={"a" * 32: -1.5})
    assert order("change") == ["a", "b", "c"]


def test_hardware_that_cannot_be_compared_stands_in_groups_of_its_own() -> None:
    here = series(point(1, 1.0))
    there = series(point(1, 1.0), comparability={"hw.gpu.name": "NVIDIA B200"})
    assert len(cases.groups([here, there])) == 2


def test_rows_climb_the_ladder_and_shared_settings_are_said_once() -> None:
    chosen = [
        case(pinning="on", precision="bf16", compile="default"),
        case(pinning="on", precision="bf16"),
        case(pinning="on", precision="tf32"),
        case(pinning="on"),
    ]
    found = [series(point(1, 1.0), id=str(n) * 32, case=one) for n, one in enumerate(chosen)]
    (group,) = cases.groups(found)
    assert group.shared == {"pinning": "on"}
    assert [row.series.id[0] for row in group.rows] == ["3", "2", "1", "0"]
    assert [s.axis for s in labels.case_settings(chosen[0], group.shared)] == [
        "precision",
        "compile",
    ]


def test_only_what_is_a_rate_or_a_time_speeds_up() -> None:
    assert labels.against_baseline("throughput") == "Speed-up"
    assert labels.against_baseline("first_step_time_warm") == "Speed-up"
    assert labels.against_baseline("peak_memory") == "Times better"
    assert labels.against_baseline("something_new") == "Times better"


def test_searching_needs_every_word_and_looks_at_verdicts_too() -> None:
    verdict = Verdict(bottleneck=Bottleneck.INPUT, confidence="high", sentence="Waits for JPEG.")
    found = cases.groups([series(point(1, 1.0))], cases.Beside({f"{1:032x}": verdict}))
    assert cases.matching(found, "resnet50 jpeg H200")
    assert not cases.matching(found, "resnet50 unet")


def test_a_csv_holds_every_point_in_base_units() -> None:
    lines = series_pages.csv_of(
        series(point(1, 1234.5), point(2, 2.0, low=None, high=None))
    ).splitlines()
    assert len(lines) == 3
    assert "1234.5" in lines[1]
    assert lines[1].endswith("throughput,img/s,false,,")


def test_a_csv_says_which_points_are_excluded() -> None:
    told = series_pages.csv_of(series(point(1, 1.0), point(2, 9.0, excluded=True)))
    rows = csv.DictReader(told.splitlines())
    assert [(row["value"], row["excluded"]) for row in rows] == [("1.0", "false"), ("9.0", "true")]


def test_a_flag_of_one_pass_is_explained_with_its_pass() -> None:
    assert labels.flag("full.tail").startswith("In the pass with input: Some steps")
    assert "no explanation" in labels.flag("something_new")


@pytest.mark.parametrize("unit", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_strangers_unit_is_no_formula_in_a_spreadsheet(unit: str) -> None:
    told = series_pages.csv_of(replace(series(point(1, 1.0)), unit=unit))
    assert told.splitlines()[1].endswith(f",'{unit},false,,")
