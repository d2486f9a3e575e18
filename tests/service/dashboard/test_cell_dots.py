"""The cells of a finding stand in rows of their kind, on one scale that holds zero."""

from __future__ import annotations

import re
from typing import Any

import pytest
from builders.series import point, series

from benchmarks.contracts import Case
from service.dashboard.cell_dots import WIDTH, cell_rows
from service.dashboard.sparkline import strip
from service.schemas.findings import AffectedSeries

H100, H200 = {"hw.gpu.name": "H100"}, {"hw.gpu.name": "H200"}


def affected(effect: float, where: dict[str, str], **axes: str) -> AffectedSeries:
    known: Any = series(
        point(1, 1.0),
        case=Case(workload="unet", preset="full", axes=axes),
        comparability={"hw.device": "cuda"} | where,
    )
    first = known.points[0]
    return AffectedSeries(
        known, effect, effect - 0.01, effect + 0.01, 1.0, 1.0 + effect, 0.0,
        first.revision_at, first.result_id, "", None,
    )  # fmt: skip


def places(drawn: str) -> list[float]:
    return [float(x) for x in re.findall(r'class="dot" d="M([0-9.]+)', drawn)]


def test_cells_are_grouped_by_workload_and_hardware() -> None:
    rows = cell_rows([affected(-0.02, H200), affected(-0.04, H100, precision="bf16"),
                      affected(-0.03, H200, compile="default")], [0.001, -0.002, 0.0])  # fmt: skip
    assert [(row.title, row.count) for row in rows.moved] == [
        ("unet · H100", 1),
        ("unet · H200", 2),
    ]
    assert rows.moved[1].middle == pytest.approx(-0.025)
    assert "precision bf16: \u22124.0" in str(rows.moved[0].drawn)
    assert (rows.low, rows.high) == (pytest.approx(-0.05), pytest.approx(0.001))
    assert rows.others
    assert (rows.others.count, rows.others.middle) == (3, 0.0)
    assert len(places(str(rows.others.drawn))) == 3


def test_all_rows_share_one_scale_that_holds_zero() -> None:
    rows = cell_rows([affected(0.02, H100), affected(0.04, H200)], [])
    assert rows.others is None
    assert (rows.low, rows.high) == (0.0, pytest.approx(0.05))
    left, right = (places(str(row.drawn))[0] for row in rows.moved)
    assert 0 < left < right < WIDTH
    assert (right - 4) / (left - 4) == pytest.approx(2.0, abs=0.02)
    zeros = {re.findall(r'class="none" d="M([0-9.]+)', str(row.drawn))[0] for row in rows.moved}
    assert zeros == {"4.0"}


def test_processes_are_dots_over_their_interval() -> None:
    drawn = str(strip((99.0, 101.0, 100.0), (98.0, 102.0), "three <processes>"))
    dots = [float(x) for x in re.findall(r'cx="([0-9.]+)"', drawn)]
    assert dots[0] < dots[2] < dots[1]
    low, high = re.findall(r'class="reach" d="M([0-9.]+) 14H([0-9.]+)', drawn)[0]
    assert float(low) < dots[0]
    assert dots[1] < float(high)
    assert "three &lt;processes&gt;" in drawn
    assert "reach" not in str(strip((99.0, 101.0), (None, None), "two"))
