"""What crosses a boundary arrives as it left, or is refused."""

import math
import zlib
from base64 import b64encode
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.contracts import (
    Case,
    Direction,
    Environment,
    JobSpec,
    Protocol,
    Result,
    Sample,
    Status,
    Trace,
)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=200))
def test_a_trace_gives_back_what_was_packed(values: list[float]) -> None:
    assert Trace.of(values).values() == values


def test_a_trace_keeps_seven_digits_of_a_step_time() -> None:
    assert math.isclose(Trace.of([0.0370941234]).values()[0], 0.0370941234, rel_tol=1e-7)


@pytest.mark.parametrize("n", [1, 3])
def test_a_trace_that_miscounts_itself_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match="holds other than that"):
        Trace(n=n, data=Trace.of([1.0, 2.0]).data).values()


def test_a_trace_that_would_swell_is_not_unpacked_beyond_its_count() -> None:
    bomb = b64encode(zlib.compress(bytes(50_000_000))).decode()
    with pytest.raises(ValueError, match="holds other than that"):
        Trace(n=1, data=bomb).values()


def test_a_trace_of_garbage_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be unpacked"):
        Trace(n=1, data=b64encode(b"garbage!").decode()).values()


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_sample_is_finite(number: float) -> None:
    with pytest.raises(ValidationError):
        Sample(metric="throughput", unit="img/s", direction=Direction.HIGHER, values=(number,))


def test_half_widths_stand_one_to_one_with_values() -> None:
    with pytest.raises(ValidationError, match="one entry for each value"):
        Sample(
            metric="m", unit="s", direction=Direction.LOWER, values=(1.0, 2.0), half_widths=(0.1,)
        )


def test_an_ok_result_without_numbers_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least one sample"):
        Result(
            case=Case(workload="resnet50"),
            status=Status.OK,
            measured_at=datetime(2026, 11, 20, tzinfo=UTC),
            protocol=Protocol(),
            environment=Environment(facts={}),
        )


def test_a_misspelt_field_is_refused_and_not_ignored() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        JobSpec.model_validate(
            {"case": {"workload": "resnet50"}, "revision": "abc", "revison_at": None}
        )


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        JobSpec.model_validate(
            {
                "case": {"workload": "resnet50"},
                "revision": "abc",
                "revision_at": "2026-11-20T02:00:00",
            }
        )


def test_a_software_version_never_decides_comparability() -> None:
    old = Environment(facts={"hw.gpu.name": "NVIDIA H200", "sw.torch": "2.11.0"})
    new = Environment(facts={"hw.gpu.name": "NVIDIA H200", "sw.torch": "2.13.0"})
    assert old.comparability() == new.comparability() == {"hw.gpu.name": "NVIDIA H200"}
