"""Does measuring cost anything while a worker watches the device? A plain loop tells.

``PYTHONPATH=.:tests python -m trials.agreement.watched WORKLOAD PAIRS``: the case of
`trials.fidelity` for that workload, in so many pairs. As in a worker a process of its
own reads the device ten times a second, here while the harness runs; during the plain loop it is
stopped. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

import torch

from benchmarks.data.cache import cache_folder
from benchmarks.workload import Context
from trials import fidelity
from trials.agreement.record import HZ
from worker.device.nvml import NvmlGauge
from worker.device.state import Occupancy, Sampler

SPAN_S = 3.0
WATCH = "--watch"


def watch(gpu: str) -> None:
    """Read the device with that UUID until this process is ended."""
    gauge = NvmlGauge(gpu)
    with Sampler(gauge, HZ, Occupancy(gauge)) as sampler:
        sampler.start()
        print("watching", flush=True)
        while True:
            time.sleep(60.0)


@contextmanager
def awake(watcher: int) -> Iterator[None]:
    """Let the process of that number run for as long."""
    os.kill(watcher, signal.SIGCONT)
    try:
        yield
    finally:
        os.kill(watcher, signal.SIGSTOP)


def main(workload: str, pairs: int) -> None:
    """Compare, with a watcher beside."""
    context = Context(torch.device("cuda", 0), cache_folder())
    (case,) = (case for case in fidelity.CASES if case.workload == workload)
    gpu = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    command = [sys.executable, "-m", "trials.agreement.watched", WATCH, gpu]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as watcher:
        try:
            assert watcher.stdout is not None
            watcher.stdout.readline()
            os.kill(watcher.pid, signal.SIGSTOP)
            beside = partial(awake, watcher.pid)
            comparison = fidelity.compare(case, context, pairs, SPAN_S, beside)
        finally:
            watcher.kill()
    print(
        json.dumps({**asdict(comparison), "ratio": comparison.ratio, "watched": True}), flush=True
    )


if __name__ == "__main__":
    watch(sys.argv[2]) if sys.argv[1] == WATCH else main(sys.argv[1], int(sys.argv[2]))
