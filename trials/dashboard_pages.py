"""Times the dashboard's pages over a full history, and counts their bytes and elements.

``PYTHONPATH=.:tests python -m trials.dashboard_pages make FOLDER`` lives through 60 nights of 43
cases on three workers, the last of which was this one, and keeps the database: it takes fifteen
minutes. ``... measure FOLDER PATH... --rows FILE`` starts a service on it and asks for each page,
one request after the other, each on a connection of its own; with ``--rate 20``, for all pages in
turn, so many times a second whether earlier ones were answered or not.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from statistics import median

from benchmarks.contracts import Status
from trials.chaos.__main__ import machine
from trials.live_service import environment
from trials.nights import service as team
from trials.nights.events import BF16, Draw, Event, Moves, drawn
from trials.nights.fleet import NODES, Fleet
from trials.nights.history import MEMORY, cases_of

NIGHTS, CASES, SEED = 60, 43, 7
KINDS = (
    *("improved", "driver", "first_step", "memory", "input", "one_case", "compiled", "one_gpu"),
    *("bad_node", "parity"),
)
PORT = 8765
REQUESTS = 60
LOADED_S = 60.0


class Elements(HTMLParser):
    """Counts the elements of a page."""

    count = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Count one."""
        del tag, attrs
        self.count += 1


def main() -> None:
    """Make a history, or measure the pages of one."""
    arguments = _arguments()
    if arguments.do == "make":
        make(arguments.folder)
        return
    url = f"sqlite:///{arguments.folder}/nights.sqlite3"
    with served(url, arguments.folder):
        if arguments.rate:
            rows = [loaded(arguments.pages, arguments.label, arguments.rate)]
        else:
            rows = [row_of(page, arguments.label) for page in arguments.pages]
    for row in rows:
        sys.stdout.write(f"{json.dumps(row)}\n")
    if arguments.rows:
        with arguments.rows.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=["make", "measure"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="*", default=["/"])
    parser.add_argument("--label", default="", help="what the rows are of")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, of all pages")
    parser.add_argument("--rows", type=Path, help="append them to this file as well")
    return parser.parse_args()


def make(folder: Path) -> None:
    """Live through the nights, and keep the database in ``folder``."""
    tonight = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0)
    team.START = tonight - team.NIGHT * (NIGHTS - 1)
    cases = cases_of(CASES)
    draw = Draw(random.Random(SEED), cases, NODES)
    events = drawn(draw, 12, NIGHTS, 5, KINDS)
    last = NIGHTS - 2
    events.append(Event("bf16 slower", last, BF16, 0.02))
    broken = Event("oom", last, draw.case(), moves=Moves.OUTCOME, status=Status.OOM)
    events.append(broken)
    work = (MEMORY if MEMORY.is_dir() else folder) / f"nights-{os.getpid()}"
    work.mkdir(parents=True)
    with team.team(work, Fleet(SEED, events), cases) as nights:
        for number in range(NIGHTS):
            nights.night(number, analysed=number >= 10)
            sys.stdout.write(f"night {number}: {nights.jobs} jobs\n")
    shutil.copytree(work, folder, dirs_exist_ok=True)
    shutil.rmtree(work)


@contextmanager
def served(url: str, folder: Path) -> Iterator[None]:
    """A service on the history at ``url``, which analyses nothing meanwhile."""
    variables = environment(
        THROUGHLINE_STATE_DIR=str(folder),
        THROUGHLINE_DATABASE_URL=url,
        THROUGHLINE_ACCESS="open",
        THROUGHLINE_BACKGROUND="false",
    )
    command = [sys.executable, "-m", "cli", "serve", "--port", str(PORT)]
    with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) as process:
        try:
            _await()
            yield
        finally:
            process.terminate()


def loaded(pages: list[str], label: str, rate: float) -> dict[str, object]:
    """Ask for ``pages`` in turn, ``rate`` times a second; times count from when each was due."""
    for page in pages:
        _ask(page, {})
    began_s = time.perf_counter()
    due_s = [began_s + number / rate for number in range(round(LOADED_S * rate))]

    def one(number: int) -> float:
        time.sleep(max(0.0, due_s[number] - time.perf_counter()))
        status = _ask(pages[number % len(pages)], {})[0]
        assert status == 200, f"{pages[number % len(pages)]}: {status}"
        return (time.perf_counter() - due_s[number]) * 1e3

    with ThreadPoolExecutor(64) as threads:
        took_ms = sorted(threads.map(one, range(len(due_s))))
    return {
        "pages": pages,
        "of": label,
        "rate": rate,
        "median_ms": round(median(took_ms), 1),
        "p95_ms": round(took_ms[int(len(took_ms) * 0.95)], 1),
        "most_ms": round(took_ms[-1], 1),
        "requests": len(took_ms),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **machine(),
    }


def _await() -> None:
    for _ in range(240):
        try:
            if _ask("/api/v1/health", {})[0] == 200:
                return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError("the service does not answer")


def row_of(page: str, label: str, requests: int = REQUESTS) -> dict[str, object]:
    """Ask for one page some times: its times, bytes and elements."""
    took_ms = sorted(_ask(page, {})[3] for _ in range(requests))
    html = _ask(page, {})[1]
    elements = Elements()
    elements.feed(html.decode())
    poll = {"HX-Request": "true", "Accept-Encoding": "gzip"}
    _, part, told, _ = _ask(page, poll)
    same = _ask(page, poll | {"If-None-Match": told.get("etag", "")})
    return {
        "page": page,
        "of": label,
        "first_byte_ms": round(median(took_ms), 1),
        "p95_ms": round(took_ms[int(requests * 0.95)], 1),
        "least_ms": round(took_ms[0], 1),
        "html_b": len(html),
        "elements": elements.count,
        "compressed_b": len(_ask(page, {"Accept-Encoding": "gzip"})[1]),
        "poll_b": len(part),
        "unchanged": [same[0], len(same[1])],
        "follows": 'data-live="' in html.decode(),
        "requests": requests,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **machine(),
    }


def _ask(page: str, headers: dict[str, str]) -> tuple[int, bytes, dict[str, str], float]:
    """Ask on a new connection; status, body, headers, and the time to the first byte in ms."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.connect()
    began_s = time.perf_counter()
    connection.request("GET", page, headers=headers)
    answer = connection.getresponse()
    took_ms = (time.perf_counter() - began_s) * 1e3
    told = {name.lower(): value for name, value in answer.getheaders()}
    body = answer.read()
    connection.close()
    return answer.status, body, told, took_ms


if __name__ == "__main__":
    main()
