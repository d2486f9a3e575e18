"""Submits one tiny job through the API of a running service and waits for its result.

    python3 containers/first_job.py http://127.0.0.1:8765 [compile=default ...] [--limit-s 900]

Needs nothing but Python, and in THROUGHLINE_TOKEN a token that may submit. Exit 0: the result came
and is ``ok``; exit 1: anything else, said in a sentence.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

Json = dict[str, Any]

_QUICK = {
    "replicates": 1,
    "warmup_min_steps": 2,
    "warmup_min_s": 0.1,
    "warmup_max_steps": 5,
    "warmup_max_s": 20.0,
    "window_min_s": 1.0,
    "window_max_s": 10.0,
    "window_min_steps": 6,
    "window_min_blocks": 2,
    "window_max_blocks": 10,
    "block_min_steps": 2,
    "block_min_s": 0.1,
    "precision": 0.05,
}
_FINAL = {"succeeded", "failed", "cancelled", "quarantined"}


def call(method: str, url: str, body: Json | None = None) -> Json:
    """Send one request and give its JSON answer.

    Raises:
        SystemExit: the service is away or refuses; the message says which and why.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("THROUGHLINE_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(  # noqa: S310 - the address is the caller's own
        url, data=data, method=method, headers=headers
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            document: Json = json.load(answer)
    except urllib.error.HTTPError as error:
        told = error.read().decode(errors="replace")[:1000]
        raise SystemExit(f"{method} {url} was refused with {error.code}: {told}") from None
    except OSError as error:
        raise SystemExit(f"{method} {url} got no answer: {error}.") from None
    return document


def submit(service: str, axes: dict[str, str], device: str) -> str:
    """Submit the job and give its id."""
    spec: Json = {
        "case": {"workload": "nanogpt", "preset": "tiny", "axes": axes},
        "revision": "containers-try",
        "requires": {"device": device},
        "protocol": _QUICK,
        "timeout_s": 600.0,
    }
    job = call("POST", f"{service}/api/v1/jobs", spec)
    return str(job["id"])


def wait(service: str, job_id: str, limit_s: float) -> Json:
    """Wait until the job is over, telling each change of state.

    Raises:
        SystemExit: it is not over after ``limit_s`` seconds.
    """
    deadline = time.monotonic() + limit_s
    seen = ""
    while time.monotonic() < deadline:
        job = call("GET", f"{service}/api/v1/jobs/{job_id}")
        if job["state"] != seen:
            seen = job["state"]
            _say(f"Job {job_id} is {seen}.")
        if seen in _FINAL:
            return job
        time.sleep(1)
    raise SystemExit(f"Job {job_id} is still {seen} after {limit_s:.0f} s: see the worker's log.")


def result_of(service: str, job_id: str) -> Json:
    """Find the stored result of the job.

    Raises:
        SystemExit: the API has none.
    """
    page = call("GET", f"{service}/api/v1/results?revision=containers-try&limit=50")
    for item in page["items"]:
        if item["job_id"] == job_id:
            return call("GET", f"{service}/api/v1/results/{item['id']}")
    raise SystemExit(f"Job {job_id} is over and the API has no result of it.")


def report(stored: Json) -> str:
    """Say in a few lines what the result holds."""
    result: Json = stored.get("result", stored)
    case = result["case"]
    axes = [f"{name}={value}" for name, value in case["axes"].items()]
    measured = " ".join([f"{case['workload']}:{case['preset']}", *axes])
    lines = [
        f"Result {stored['id']} of {measured} by {stored['worker']}:",
        f"  status       {result['status']} {result.get('reason', '')}".rstrip(),
    ]
    for sample in result["samples"]:
        values = ", ".join(f"{value:.6g}" for value in sample["values"])
        lines.append(f"  {sample['metric']:<18} {values} {sample['unit']}")
    return "\n".join(lines)


def _axis(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"{word!r} is not of the form axis=value")
    return name, value


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run one job and print what came of it."""
    parser = argparse.ArgumentParser(description="Submit one tiny job and wait for its result.")
    parser.add_argument("service")
    parser.add_argument("axes", nargs="*", metavar="axis=value", type=_axis)
    parser.add_argument("--limit-s", type=float, default=900.0)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_intermixed_args()
    job_id = submit(asked.service, dict(asked.axes), asked.device)
    wait(asked.service, job_id, asked.limit_s)
    stored = result_of(asked.service, job_id)
    _say(report(stored))
    status = stored.get("result", stored)["status"]
    if status != "ok":
        _say(f"The job ran and its result is {status!r}, not 'ok'.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
