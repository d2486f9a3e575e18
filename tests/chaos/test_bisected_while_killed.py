"""The short form of `python -m trials.chaos bisected`: builds whose processes are killed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from trials.chaos.replica import environment

KILLS = 3


@pytest.mark.slow
def test_a_bisection_names_the_same_commit_whatever_is_killed_meanwhile() -> None:
    """Worker, builder and service, each at a state of its own."""
    command = [sys.executable, "-m", "trials.chaos.bisected", "--seed", "5"]
    told = ["--kills", str(KILLS), "--commits", "3"]
    done = subprocess.run(
        [*command, *told], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["violations"] == []
    assert row["kills"] == KILLS
