"""The canary of the links between a worker's devices, over gloo."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.contracts import Canary

WORDS = [sys.executable, "-m", "benchmarks.measure.canary", "--device", "cpu"]
LINKS = {"all_reduce_1mib_b_s", "point_to_point_b_s"}


def taken(*more: str) -> Canary:
    done = subprocess.run([*WORDS, *more], capture_output=True, check=True, timeout=120)
    return Canary.model_validate(json.loads(done.stdout.splitlines()[-1]))


def test_links_between_several_devices_are_read_beside_the_first_one() -> None:
    alone, together = taken(), taken("--beside", "cpu", "cpu")
    assert together.readings.keys() - alone.readings.keys() == LINKS
    assert all(together.readings[name] > 1e6 for name in LINKS)


def test_a_device_that_cannot_be_used_costs_only_the_readings_of_the_links() -> None:
    told = taken("--beside", "cuda:99")
    assert "python_s" in told.readings
    assert not LINKS & told.readings.keys()
