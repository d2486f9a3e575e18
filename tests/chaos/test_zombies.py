"""The short form of the zombies."""

from __future__ import annotations

from pathlib import Path

from trials.chaos.zombies import awaken


def test_a_frozen_workers_result_is_kept_and_shown_and_never_counts(
    sqlite_url: str, tmp_path: Path
) -> None:
    found = awaken(sqlite_url, tmp_path, rounds=1, zombies=4)
    assert found.violations == []
    assert (found.late, found.counted, found.lost) == (4, 4, 4)
