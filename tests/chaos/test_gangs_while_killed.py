"""The short form of `python -m trials.chaos gangs`: a gang whose processes are killed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from trials.chaos.replica import environment

VICTIMS = ("service",)
"""A rank and the lead are struck in `tests/worker/test_gang_worker.py`."""
EASED_S = 200
"""On a machine under load; `make chaos` holds the promise itself."""


@pytest.mark.slow
def test_a_gang_that_is_struck_gives_its_lease_back_and_leaves_nothing() -> None:
    """The service is killed and the gang goes on; then one that nobody strikes has its result."""
    command = [sys.executable, "-m", "trials.chaos.gangs", "--seed", "5"]
    told = ["--kills", str(len(VICTIMS)), "--back-s", str(EASED_S)]
    told += ["--victims", *VICTIMS]
    done = subprocess.run(
        [*command, *told], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["violations"] == []
    assert row["by_victim"] == dict.fromkeys(VICTIMS, 1)
