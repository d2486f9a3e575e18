"""The curves of long parity on a run's page: bands of seeds, the difference, its margin."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import Direction, LongParity, LongParityStatus, Sample, Trace
from benchmarks.diagnosis import loss_curves
from service.dashboard import figures

STEPS, PART = 250, 120


def compared(late: float = 0.0) -> LongParity:
    """Curves of four seeds; the case rises by ``late`` a step from `PART` on."""
    rng = np.random.default_rng(1)
    falling = 4 + 6 * np.exp(-np.arange(STEPS) / 40)
    reference = falling + rng.normal(0, 0.03, (4, 1)) + rng.normal(0, 0.1, (4, STEPS))
    rise = late * np.maximum(0, np.arange(STEPS) - PART)
    return loss_curves.compare(reference + rng.normal(0, 0.01, reference.shape) + rise, reference)


def drawn(told: LongParity) -> Any:
    figure = figures.loss_curves(told)
    assert figure is not None
    return orjson.loads(str(figures.embed(figure)))


def test_both_sides_have_a_median_within_the_band_of_their_seeds() -> None:
    chart = drawn(compared())
    for band, line in zip(chart["data"][0:4:2], chart["data"][1:4:2], strict=True):
        half = len(line["y"])
        high, low = np.array(band["y"][:half]), np.array(band["y"][half:][::-1])
        assert (low <= line["y"]).all()
        assert (line["y"] <= high).all()
        assert (low < high).all()
    assert [one["name"] for one in chart["data"][1:4:2]] == ["fp32 eager", "this case"]
    assert sum(len(one["x"]) for one in chart["data"]) <= 2_000


def test_the_difference_lies_below_with_the_margin_and_the_step_at_which_curves_part() -> None:
    told = compared(late=0.01)
    chart = drawn(told)
    apart = chart["data"][-1]
    assert (apart["name"], apart["yaxis"]) == ("difference", "y2")
    before = [y for x, y in zip(apart["x"], apart["y"], strict=True) if x < PART]
    assert max(map(abs, before)) < 0.02
    assert apart["y"][-1] == pytest.approx(1.24, abs=0.06)
    margin, parted = chart["layout"]["shapes"]
    assert margin["y0"] == pytest.approx(told.margin)
    assert PART < parted["x0"] == told.parts_at < PART + 20


def test_a_wild_start_leaves_the_scales_to_where_training_ends() -> None:
    rng = np.random.default_rng(2)
    wild = np.where(np.arange(STEPS) < 60, 40.0, 0.0) * rng.random((4, STEPS))
    level = 2 + rng.normal(0, 0.01, (4, STEPS))
    told = loss_curves.compare(level + wild, level + wild[::-1])
    axes = drawn(told)["layout"]
    assert axes["yaxis"]["type"] == "log"
    bottom, top = axes["yaxis2"]["range"]
    assert -0.1 < bottom < 0 < told.margin < top < 0.1


def test_losses_below_zero_are_drawn_on_a_linear_scale() -> None:
    level = -2 + np.random.default_rng(3).normal(0, 0.01, (4, STEPS))
    assert drawn(loss_curves.compare(level, level))["layout"]["yaxis"]["type"] == "linear"


@pytest.mark.parametrize(
    "traces",
    [(), ([1.0] * 20,), ([1.0] * 20, [1.0] * 19), ([1.0] * 9,) * 2, ([float("nan")] * 20,) * 2],
    ids=["none", "one seed", "other lengths", "too short", "not finite"],
)
def test_curves_that_cannot_be_drawn_cost_the_chart_alone(traces: tuple[list[float], ...]) -> None:
    bad = tuple(map(Trace.of, traces))
    good = tuple(Trace.of([1.0] * 20) for _ in range(2))
    of = LongParity(status=LongParityStatus.UNDECIDED, case=bad, reference=good)
    assert figures.loss_curves(of) is None
    assert figures.loss_curves(of.model_copy(update={"case": good, "reference": bad})) is None
    assert figures.loss_curves(None) is None


def test_a_case_that_trains_worse_is_told_on_its_page_and_in_the_report(
    client: TestClient, hand: Hand
) -> None:
    told = compared(late=0.01)
    asked = {"cases": [{"workload": "resnet50"}], "revision": "r1"}
    submission = client.post("/api/v1/submissions", json=asked).json()["id"]
    lease = hand.must_claim()
    sample = Sample(metric="throughput", unit="img/s", direction=Direction.HIGHER, values=(100.0,))
    result = loss_curves.with_long_parity(result_of(lease, samples=(sample,)), told)
    stored = hand.post(lease, result).json()["id"]
    page = client.get(f"/runs/{stored}").text
    assert "Over more steps: it trains worse than fp32 eager" in page
    assert f"The curves part at step {told.parts_at}." in page
    assert "Loss of this case and of fp32 eager" in page
    (row,) = client.get(f"/api/v1/submissions/{submission}/report").json()["rows"]
    assert (row["status"], row["parity"], row["reason"]) == ("parity_fail", "fail", told.reason)
