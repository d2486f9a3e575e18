"""What has one cause becomes one finding, and what differs becomes several."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.contracts import Case, Direction
from service.analysis.detection.change import ChangePoint
from service.findings import causes
from service.findings.gather_evidence import moved_with
from service.findings.rules import Candidate
from service.history.series_history import PlacedChange
from service.schemas.series import SeriesName

START = datetime(2026, 3, 1, tzinfo=UTC)
LOWER = frozenset({"peak_memory", "first_step_time", "energy_per_item"})


def night(number: int) -> datetime:
    return START + timedelta(days=number)


def changed(
    workload: str,
    metric: str = "throughput",
    at: int = 10,
    *,
    worse: bool = True,
    gpu: str = "NVIDIA H200",
    doubt: float = 0.01,
    earliest: int | None = None,
) -> Candidate:
    """A change of two per cent."""
    series = SeriesName(
        id=f"{workload} {metric} {gpu} {at}",
        case=Case(workload=workload, preset="full"),
        metric=metric,
        unit="1",
        direction=Direction.LOWER if metric in LOWER else Direction.HIGHER,
        comparability={"hw.gpu.name": gpu},
        project="",
    )
    effect = 0.02 if worse == (metric in LOWER) else -0.02
    point = ChangePoint(at, effect, effect, effect, 1.0, 1.0 + effect, not worse, 0.99, 9.0)
    placed = PlacedChange(point, f"r{at - 1}", f"r{at}", night(at), f"result {at}")
    first = at if earliest is None else earliest
    return Candidate(series, placed, at, night(first), night(at), doubt)


def grouped(*changes: Candidate) -> list[list[tuple[str, str]]]:
    return [
        [(one.series.case.workload, one.series.metric) for one in group]
        for group in causes.groups(changes)
    ]


def test_one_commit_is_one_cause_over_workloads_metrics_and_hardware() -> None:
    (group,) = grouped(
        changed("unet", "energy_per_item", doubt=0.001),
        changed("resnet50"),
        changed("unet", "throughput_synth"),
        changed("nanogpt", gpu="NVIDIA H100"),
    )
    assert sorted(workload for workload, _ in group) == ["nanogpt", "resnet50", "unet", "unet"]


def test_the_metric_that_people_read_first_names_the_cause_however_sure_others_are() -> None:
    (group,) = grouped(
        changed("unet", "energy_per_item", doubt=1e-9), changed("unet", "throughput", doubt=0.1)
    )
    assert group[0] == ("unet", "throughput")


def test_a_cell_moved_the_same_way_where_its_energy_rose_and_not_its_throughput_fell() -> None:
    energy, faster = changed("unet", "energy_per_item"), changed("nanogpt", worse=False)
    moved = moved_with(changed("resnet50"), [energy, faster])
    effects = {one.cell.case.workload: one.effect for one in moved}
    assert effects == {"unet": pytest.approx(-0.0196, abs=1e-4), "nanogpt": 0.02}


def test_what_got_worse_and_what_got_better_are_two_causes() -> None:
    assert len(grouped(changed("unet"), changed("nanogpt", worse=False))) == 2


def test_less_energy_of_a_slower_case_is_no_second_cause() -> None:
    slower = changed("unet")
    assert len(grouped(slower, changed("unet", "energy_per_item", worse=False))) == 1


@pytest.mark.parametrize(("also", "causes_"), [("unet", 1), ("resnet50", 2)])
def test_memory_of_other_cases_has_a_cause_of_its_own_unless_a_case_shows_both(
    also: str, causes_: int
) -> None:
    slower, larger = changed("unet"), changed("resnet50", "peak_memory")
    shown = {changed("nanogpt", "peak_memory").series.id: changed("nanogpt", "peak_memory")}
    both = changed(also, "peak_memory")
    shown |= {larger.series.id: larger, both.series.id: both}
    assert len(grouped(slower, *shown.values())) == causes_


def test_places_that_may_be_one_are_one_and_others_are_not() -> None:
    skipped = changed("nanogpt", at=12, earliest=10)
    assert len(grouped(changed("unet", at=10), skipped)) == 1
    assert len(grouped(changed("unet", at=10), changed("nanogpt", at=12))) == 2


def test_a_wide_place_does_not_tie_two_narrow_ones_together() -> None:
    wide = changed("nanogpt", at=12, earliest=8, doubt=0.05)
    found = grouped(changed("unet", at=9), changed("resnet50", at=11), wide)
    assert sorted(map(len, found)) == [1, 2]


def test_the_order_in_which_changes_come_says_nothing() -> None:
    changes = [changed(name, metric) for name in ("unet", "nanogpt", "resnet50")
               for metric in ("throughput", "peak_memory", "energy_per_item")]  # fmt: skip
    assert causes.groups(changes) == causes.groups(changes[::-1])


def test_a_change_joins_what_is_of_its_cell_or_of_its_subject_and_direction() -> None:
    known = [changed("unet")]
    assert causes.same_cause(changed("nanogpt", gpu="NVIDIA H100"), known)
    assert causes.same_cause(changed("unet", "peak_memory"), known)
    assert not causes.same_cause(changed("nanogpt", "peak_memory"), known)
    assert not causes.same_cause(changed("nanogpt", worse=False), known)
    assert not causes.same_cause(replace(changed("nanogpt", "first_step_time")), known)
