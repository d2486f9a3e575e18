"""A night that explores: the fastest known case of a workload before and after it.

``PYTHONPATH=. python -m trials.explored_night FILE WORKLOAD --explore 8m --devices cuda:0``
measures the workload's cases of ``smoke``, fires a schedule with ``--explore``, and writes into
FILE what ``throughline best`` answers before and after, with the seconds that each part took.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trials.live_service import here, service_and_workers, throughline
from trials.stored_results import get, summaries, unfinished

PORT = 8785
URL = here(PORT)


def main() -> None:
    """Measure, explore, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("workload")
    parser.add_argument("--explore", default="8m")
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of the night")
    options = parser.parse_args()
    devices = enumerate(options.devices.split(","))
    workers = [["--name", f"gpu-{n}", "--device", device] for n, device in devices]
    with TemporaryDirectory() as name, service_and_workers(Path(name), PORT, {}, workers):
        row = explored(Path(name), options)
    options.file.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")


def explored(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What was the best before and after, and every case that was measured between."""
    from_s = time.monotonic()
    words = ["submit", "smoke", "--only", options.workload, "--revision", "explored", "--wait"]
    print(_run(folder, *words), flush=True)
    before, measured_s = get(f"{URL}/api/v1/best"), time.monotonic() - from_s
    words = ["schedule", "set", "night", "--cron", "0 0 1 1 *", "--suite", "smoke"]
    words += ["--revision-rule", "fixed:explored", "--explore", options.explore]
    _run(folder, *words)
    from_s = time.monotonic()
    print(_run(folder, "schedule", "fire", "night"), flush=True)
    until_s = from_s + options.limit
    while time.monotonic() < until_s and unfinished(URL):
        time.sleep(2.0)
    return {
        "workload": options.workload,
        "explore": options.explore,
        "measured_s": measured_s,
        "night_s": time.monotonic() - from_s,
        "before": before,
        "after": get(f"{URL}/api/v1/best"),
        "results": list(summaries(URL)),
    }


def _run(folder: Path, *words: str) -> str:
    done = throughline([*words, "--url", URL], folder)
    print(done.stderr[-2000:], flush=True)
    return done.stdout


if __name__ == "__main__":
    main()
