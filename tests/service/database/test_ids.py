"""Ids sort as rows were made."""

from datetime import UTC, datetime

from service.database.session import new_id


def test_rows_of_one_moment_sort_in_the_order_in_which_they_were_made() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    made = [new_id(now) for _ in range(300)]
    assert made == sorted(made)
    assert {len(one) for one in made} == {32}
