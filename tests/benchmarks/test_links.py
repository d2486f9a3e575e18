"""The canary of the links between a worker's devices, over gloo."""

from __future__ import annotations

import json
import os
from pathlib import Path

from builders import loaded

from benchmarks.contracts import Canary

WORDS = ("benchmarks.measure.canary", "--device", "cpu")
LINKS = {"all_reduce_1mib_b_s", "point_to_point_b_s"}


def taken(*more: str) -> Canary:
    done = loaded.run(*WORDS, *more, environment=os.environ, folder=Path.cwd())
    assert done.returncode == 0, done.stderr
    return Canary.model_validate(json.loads(done.stdout.splitlines()[-1]))


def test_links_between_several_devices_are_read_beside_the_first_one() -> None:
    """A device that cannot be used costs only the readings of the links."""
    together, without = taken("--beside", "cpu", "cpu"), taken("--beside", "cuda:99")
    assert "python_s" in without.readings
    assert together.readings.keys() - without.readings.keys() == LINKS
    assert all(together.readings[name] > 1e6 for name in LINKS)
