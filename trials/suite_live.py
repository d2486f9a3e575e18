"""A suite as a service and its workers measure it: what each job took, and the whole.

``PYTHONPATH=. python -m trials.suite_live FILE nightly --devices cuda:0,cuda:1 --limit 1500``
starts a service and a worker for each device, submits the suite and writes a line for each job that
has ended into FILE. It ends with the suite, or after ``--limit`` seconds. ``--every 2 --first 1``
submits every second case, from the second on. ``--table`` reads FILE.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.catalog.suites import suite
from benchmarks.contracts import Case
from trials.live_service import here, post, service_and_workers
from trials.stored_results import get, listed, unfinished

PORT = 8786
URL = here(PORT)


def main() -> None:
    """Measure a suite, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("suite", nargs="?", default="nightly")
    parser.add_argument("--every", type=int, default=1, help="of so many cases one")
    parser.add_argument("--first", type=int, default=0, help="number of the first case, from 0")
    parser.add_argument("--devices", default="auto", help="such as cuda:0,cuda:1: a worker each")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--table", action="store_true", help="print what the file has")
    options = parser.parse_args()
    if not options.table:
        devices = enumerate(options.devices.split(","))
        workers = [["--name", f"gpu-{n}", "--device", device] for n, device in devices]
        with (
            options.file.open("w", encoding="utf-8") as out,
            TemporaryDirectory() as name,
            service_and_workers(Path(name), PORT, {}, workers),
        ):
            for row in measured(options):
                print(json.dumps(row), file=out, flush=True)
    lines = options.file.read_text(encoding="utf-8").splitlines()
    print(table([json.loads(line) for line in lines]))


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what each job took that ended in time."""
    _submit(options)
    until_s, told = time.monotonic() + options.limit, set[str]()
    is_open = True
    while is_open:
        is_open = time.monotonic() < until_s and unfinished(URL) > 0
        ended = [
            job
            for job in listed(f"{URL}/api/v1/jobs")
            if job["result_id"] and job["id"] not in told
        ]
        yield from map(_row, ended)
        told |= {job["id"] for job in ended}
        time.sleep(2.0)


def _submit(options: argparse.Namespace) -> None:
    chosen = suite(options.suite)
    cases = [case.model_dump() for case in chosen.cases[options.first :: options.every]]
    body = {"cases": cases, "protocol": chosen.protocol.model_dump(), "revision": "measured"}
    post(f"{URL}/api/v1/submissions", body)


def _row(job: dict[str, Any]) -> dict[str, Any]:
    """The seconds of a job: from its lease to its result, its start's parts and its passes."""
    attempt = get(f"{URL}/api/v1/jobs/{job['id']}")["attempts"][-1]
    result = get(f"{URL}/api/v1/results/{job['result_id']}")["result"]
    timed = result["replicates"][0] if result["replicates"] else {}
    windows = [timed[one]["window"] for one in ("full", "synth") if one in timed]
    begun, ended = (datetime.fromisoformat(attempt[one]) for one in ("granted_at", "ended_at"))
    return {
        "case": Case.model_validate(result["case"]).key,
        "replicate": job["replicate"],
        "replicates": job["replicates"],
        "worker": attempt["worker"],
        "granted_at": attempt["granted_at"],
        "took_s": (ended - begun).total_seconds(),
        "status": result["status"],
        "startup": result.get("startup", {}),
        "parity_s": (result.get("parity") or {}).get("s"),
        "passes_s": [window["end_s"] - window["start_s"] for window in windows],
        "throughput": timed["full"]["rate"] if timed else None,
        "gpu": result["environment"]["facts"].get("hw.gpu.name"),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Mean seconds of first and later processes, and of the whole on one worker."""
    lines = [
        "| processes | number | s each | start | warm-up | passes | not ok |",
        "|" + "---|" * 7,
    ]
    for name, of in (
        ("first of a case", [row for row in rows if row["replicate"] == 1]),
        ("later", [row for row in rows if row["replicate"] > 1]),
    ):
        if of:
            warm_ups = [row["startup"].get("warmup", 0.0) for row in of]
            starts = [sum(row["startup"].values()) - s for row, s in zip(of, warm_ups, strict=True)]
            passes = [sum(row["passes_s"]) for row in of]
            bad = sum(row["status"] != "ok" for row in of)
            means = (f"{fmean(values):.1f}" for values in (_took(of), starts, warm_ups, passes))
            lines.append(f"| {name} | {len(of)} | {' | '.join(means)} | {bad} |")
    workers = len({row["worker"] for row in rows})
    lines.append(f"{len(rows)} jobs, {sum(_took(rows)) / 60:.1f} min of {workers} workers.")
    return "\n".join(lines)


def _took(rows: Sequence[dict[str, Any]]) -> list[float]:
    return [row["took_s"] for row in rows]


if __name__ == "__main__":
    main()
