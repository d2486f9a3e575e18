"""The short form of the zombies."""

from __future__ import annotations

from pathlib import Path

import pytest

from trials.chaos.zombies import awaken


@pytest.mark.parametrize("zombies", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_frozen_workers_result_is_kept_and_shown_and_never_counts(
    zombies: int, sqlite_url: str, tmp_path: Path
) -> None:
    found = awaken(sqlite_url, tmp_path, rounds=1, zombies=zombies)
    assert found.violations == []
    assert (found.late, found.counted, found.lost) == (zombies, zombies, zombies)
