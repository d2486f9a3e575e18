"""A short simulated history through the whole service: what happens is told, as it is."""

from trials.nights.history import Plan, simulate
from trials.nights.score import waited

PLAN = Plan(
    seed=5, nights=16, cases=4, every=3, kinds=("improved", "driver"), first=10, analysed_from=9
)  # fmt: skip
"""Before the tenth night no series is long enough to be analysed."""


def test_what_happens_is_told_once_as_it_is_within_three_nights() -> None:
    history = simulate(PLAN)
    rows = history.judged()
    assert [truth.kind for truth in history.truths] == ["workload faster", "driver"]
    for truth in history.truths:
        nights = waited(rows, truth)
        assert nights is not None
        assert nights <= 3
    assert [row.wrong for row in rows] == [[], []]
    assert history.jobs >= PLAN.nights * PLAN.cases * 3
