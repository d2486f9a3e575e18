"""Tests which of several changes a level takes back."""

from __future__ import annotations

import pytest

from service.analysis.recovery import singled_out, without

CODE, DRIVER, AGAIN = (100.0, 96.0), (96.0, 93.0), (93.0, 91.0)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (100.0, None),  # all is as it was
        (96.9, 0),  # 93 is 96 less the driver's 3 %
        (96.0, None),  # the last one alone
        (93.2, None),
        (98.5, None),
    ],
)
def test_a_level_singles_out_the_change_that_it_fits(later: float, expected: int | None) -> None:
    assert singled_out([CODE, DRIVER], later) == expected


def test_of_three_changes_the_middle_one_may_be_taken_back() -> None:
    level = 91.0 * 96.0 / 93.0
    assert singled_out([CODE, DRIVER, AGAIN], level) == 1
    assert without([AGAIN], level) == pytest.approx(96.0)


def test_one_change_and_levels_without_ratios_single_out_nothing() -> None:
    assert singled_out([], 97.5) is None
    assert singled_out([CODE], 97.5) is None
    assert singled_out([(0.0, 4.0), (4.0, 7.0)], 3.0) is None
    assert without([(4.0, 0.0), (2.0, 4.0)], 6.0) == 3.0
