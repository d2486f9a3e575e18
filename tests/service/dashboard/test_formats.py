"""Numbers read as a person writes them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.wording import formats

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def plain(text: str) -> str:
    return text.replace(formats.NBSP, " ")


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1234.4, "img/s", "1,234 img/s"),
        (519_634.2, "token/s", "519,634 token/s"),
        (11.42, "img/s", "11.42 img/s"),
        (0.2421, "s", "242.1 ms"),
        (66.79, "s", "66.79 s"),
        (3.2e-5, "s", "32 µs"),
        (600.0, "s", "10 min"),
        (26.5 * 2**30, "B", "26.50 GiB"),
        (512.0, "B", "512 B"),
        (1.98e9, "Hz", "1,980 MHz"),
        (0.1521, "J", "152.1 mJ"),
        (691.25, "W", "691.2 W"),
        (0.4165, "1", "41.65 %"),
        (4.4771e8, "1", "447.7 M"),
        (0.0, "s", "0 s"),
        (-0.004, "1", "\u22120.4 %"),
    ],
)
def test_a_quantity_reads_in_the_unit_that_suits_its_size(
    value: float, unit: str, shown: str
) -> None:
    assert plain(formats.quantity(value, unit)) == shown


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_said_to_be_unknown(value: float) -> None:
    assert formats.number(value) == "unknown"


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["s", "B", "1", "Hz", "W"])
)
def test_every_finite_number_can_be_shown(value: float, unit: str) -> None:
    assert formats.quantity(value, unit)


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (0.031, "+3.1 %"),
        (-0.065, "\u22126.5 %"),
        (0.0, "0.00 %"),
        (0.0003, "+0.03 %"),
        (5, "+500 %"),
    ],
)
def test_a_change_carries_its_sign(ratio: float, shown: str) -> None:
    assert plain(formats.change(ratio)) == shown


def test_half_an_interval_is_relative_and_in_points_for_ratios() -> None:
    assert plain(formats.half_width(100.0, 99.0, 101.0, "img/s")) == "± 1.0 %"
    assert plain(formats.half_width(0.40, 0.39, 0.41, "1")) == "± 1.0 pp"
    assert formats.half_width(100.0, None, None, "img/s") == ""


def test_both_ends_of_an_interval_share_the_value_s_unit() -> None:
    assert plain(formats.interval(0.242, 0.2401, 0.2439, "s")) == "240.1\u2013243.9 ms"
    below_zero = plain(formats.interval(-0.7, -0.88, -0.54, "1"))
    assert " to " in below_zero
    assert "\u2013" not in below_zero


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(seconds=2), "just now"),
        (timedelta(minutes=5), "5 min ago"),
        (timedelta(days=3, hours=2), "3 d ago"),
        (timedelta(hours=-18), "in 18 h"),
    ],
)
def test_time_is_told_from_now(passed: timedelta, shown: str) -> None:
    assert plain(formats.ago(NOW - passed, NOW)) == shown


def test_a_commit_hash_is_cut_and_a_label_is_not() -> None:
    assert formats.revision("0123456789abcdef0123456789abcdef01234567") == "0123456789"
    assert formats.revision("2026-11-20") == "2026-11-20"
    assert len(formats.revision("release/" + "x" * 90)) <= 28


def test_hardware_is_named_by_what_a_person_calls_it() -> None:
    gpu = {"hw.gpu.name": "NVIDIA H200", "hw.gpu.mig": "off", "hw.cpu.model": "EPYC"}
    assert formats.hardware(gpu) == "NVIDIA H200"
    assert formats.hardware(gpu | {"hw.gpu.mig": "1g.18gb"}) == "NVIDIA H200 · MIG 1g.18gb"
    assert formats.hardware({"hw.cpu.model": "Xeon", "hw.cpu.usable": "2"}) == "Xeon · 2 cores"
    assert formats.hardware({}) == "unknown device"


def test_a_share_that_rounds_to_nothing_has_no_sign() -> None:
    assert [plain(formats.share(one)) for one in (-0.0004, 0.0, -0.0123)] == [
        "0.0 %",
        "0.0 %",
        "\u22121.2 %",
    ]
