"""A factor is named rightly where its cause meets a drift."""

import pytest

from trials.nights.crossing import PLANTED, crossing
from trials.nights.events import Factor

SEEDS = range(3)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: one[0])
def test_the_factor_is_named_beside_a_drift(planted: tuple[str, Factor, float]) -> None:
    rows = [crossing(seed, planted, "resnet50", 4) for seed in SEEDS]
    assert all(row.step for row in rows)


def test_the_whole_shift_takes_a_drift_for_a_part_of_the_cause() -> None:
    rows = [crossing(seed, PLANTED[3], "resnet50", 4) for seed in SEEDS]
    assert not all(row.shift for row in rows)
