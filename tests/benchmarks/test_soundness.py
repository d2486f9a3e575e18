"""A pass that trained nothing has no speed."""

import pytest
from builders.measured import a_pass, a_replicate, a_result

from benchmarks.contracts import Result, Status
from benchmarks.diagnosis import sanity


def measured() -> Result:
    return a_result(a_replicate(a_pass(0.1), a_pass(0.1)))


def test_a_model_that_makes_nan_has_no_speed_and_its_raw_passes_are_kept() -> None:
    reason = sanity.not_finite(("full.tail", "synth.loss_not_finite"))
    assert "at the end of SYNTH" in reason
    assert sanity.not_finite(("full.tail", "warmup_incomplete")) == ""
    broken = sanity.without_speed(measured(), reason)
    assert (broken.status, broken.samples, broken.reason) == (Status.PARITY_FAIL, (), reason)
    assert broken.replicates == measured().replicates


@pytest.mark.parametrize(
    ("before", "after", "steps", "lost"),
    [
        (1.0, 1.0, 50, False),  # without a scaler
        (65536.0, 16384.0, 5, False),  # it may look for its scale
        (65536.0, 8192.0, 5, True),
        (65536.0, 8192.0, 100, False),
        (65536.0, 65536.0 / 2**11, 100, True),
        (65536.0, 131072.0, 2000, False),
        (2.0**-24, 2.0**-24, 50, False),
        (2.0**-25, 2.0**-25, 50, True),  # it found no scale in warm-up
        (0.0, 0.0, 50, True),
    ],
)
def test_a_scaler_that_discards_a_tenth_of_the_updates_has_lost_its_way(
    before: float, after: float, steps: int, lost: bool
) -> None:
    assert sanity.lost(before, after, steps) is lost


def test_a_pass_whose_updates_were_discarded_has_no_speed() -> None:
    reason = sanity.not_finite(("full.updates_discarded", "full.tail", "synth.updates_discarded"))
    assert reason.startswith(
        "Gradients were not finite and updates discarded in too many steps of FULL and SYNTH: "
    )
