"""The short form of the power cuts: a recorded service, a recorded spool, a few hundred cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from trials.chaos import disk, power

SEED = 20261120


@pytest.mark.parametrize(
    ("jobs", "points", "syncs"), [(4, 40, 10), pytest.param(12, 150, 40, marks=pytest.mark.slow)]
)
def test_no_answered_commit_is_lost_with_the_power(
    jobs: int, points: int, syncs: int, tmp_path: Path
) -> None:
    before, log = power.record(tmp_path, jobs)
    cuts = power.cut(before, log, points, SEED, tmp_path)
    assert cuts.violations == []
    assert cuts.syncs > syncs
    assert min(cuts.answers.values()) > jobs * 2 // 3


def test_a_database_that_does_not_wait_for_the_disk_is_caught(tmp_path: Path) -> None:
    before, log = power.record(tmp_path, 4, "synchronous")
    violations = power.cut(before, log, 60, SEED, tmp_path).violations
    assert any("answered and is gone" in each or "damaged" in each for each in violations)


@pytest.mark.parametrize("mutant", ["", "spool fsync", "spool rename"])
def test_a_kept_result_survives_the_power_unless_its_protection_is_off(
    tmp_path: Path, mutant: str
) -> None:
    violations = power.cut_spool(tmp_path, disk.built(tmp_path), 5, SEED, mutant)
    assert bool(violations) == bool(mutant)
