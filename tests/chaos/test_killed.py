"""The short form of `python -m trials.chaos killed`: workers killed at any moment of a job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trials.chaos.killed import PROMISED_S
from trials.chaos.replica import environment
from worker.child.containment import Containment, obstacle_to_namespaces

KILLS = 1, 4
"""Other tests keep the processors busy; in `make chaos` processes of its own do."""
LATE_FIRST = 2
"""A seed whose first kill comes after 1.4 s, when there are processes to outlive the worker."""
EASED_S = 5 * PROMISED_S
"""On a machine under load; `make chaos` holds the promise itself."""


@pytest.mark.parametrize("kills", [KILLS[0], pytest.param(KILLS[1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("containment", list(Containment))
def test_nothing_outlives_a_worker_that_is_killed_at_any_moment(
    containment: Containment, kills: int, tmp_path: Path
) -> None:
    """Neither the guard that begins, nor a child, nor its daemons that ignore signals."""
    if containment is Containment.PID_NAMESPACE and (why := obstacle_to_namespaces()):
        pytest.skip(f"no PID namespace can be had here: {why}")
    command = [sys.executable, "-m", "trials.chaos.killed", containment.value]
    told = ["--kills", str(kills), "--load", "0", "--within-s", "1.5", "--seed", str(LATE_FIRST)]
    done = subprocess.run(
        [*command, *told], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["kills"] == kills
    assert row["slowest_s"] < EASED_S, row["late"]
    assert max(each["processes"] for each in row["by_processes"]) > 0
