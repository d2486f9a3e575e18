"""A worker inside a placement group of Ray: ``python worker.py URL GPUS`` on one of its nodes.

It takes jobs until none is left that fits, then gives the GPUs back to Ray.
"""

from __future__ import annotations

import os
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


def work(url: str, gpus: int) -> int:
    """Be a worker until no job is left; returns its exit code."""
    name = f"ray-{ray.util.get_node_ip_address()}"
    environment = os.environ | {"THROUGHLINE_URL": url, "THROUGHLINE_WORKER_NAME": name}
    if gpus > 1:
        environment["THROUGHLINE_GPUS"] = ",".join(map(str, range(gpus)))
    words = ["throughline", "worker", "--once"]
    return subprocess.run(words, env=environment, check=False).returncode


def main(url: str, gpus: int) -> int:
    """Reserve the GPUs of one node, and work there."""
    ray.init()
    group = placement_group([{"GPU": gpus, "CPU": gpus}], strategy="STRICT_PACK")
    ray.get(group.ready())
    there = PlacementGroupSchedulingStrategy(placement_group=group)
    task = ray.remote(work).options(num_gpus=gpus, num_cpus=gpus, scheduling_strategy=there)
    try:
        return ray.get(task.remote(url, gpus))
    finally:
        remove_placement_group(group)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
