"""A reported place stands for later changes of its size."""

import pytest

from service.findings.rules import ReportedPlace

DROP = ReportedPlace(at=50, effect=-0.03, until=50)


@pytest.mark.parametrize(
    ("index", "effect", "leads"),
    [
        (50, -0.03, True),
        (57, -0.026, True),
        (80, -0.03, True),
        (81, -0.03, False),
        (49, -0.03, False),
        (57, 0.03, False),
        (57, -0.07, False),
    ],
)
def test_a_change_leads_to_one_of_its_size_that_few_points_later_show(
    index: int, effect: float, leads: bool
) -> None:
    assert DROP.leads_to(index, effect, points=30) is leads
