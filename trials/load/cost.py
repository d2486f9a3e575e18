"""Processor time of one heartbeat, claim and result in the application itself, and where it goes.

    PYTHONPATH=.:tests .venv/bin/python -m trials.load.cost [--database sqlite] [--requests 300]

No socket and no client: each request is one call of the ASGI application. The time of PostgreSQL's
own processes is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from types import FrameType
from typing import Any
from unittest import mock

from service.app import create_app
from service.settings import Access, Settings
from trials.chaos.__main__ import place
from trials.load import traffic
from trials.load.line import Due
from trials.load.traffic import Material, Plan, Shape

ROOT = Path(__file__).resolve().parents[2]
SAMPLE_S = 0.001
"""Of processor time between two looks at what runs."""
LIBRARIES = ("sqlalchemy", "sqlite3", "psycopg", "pydantic", "fastapi", "starlette", "anyio")
Send = Callable[[Due], Coroutine[Any, Any, None]]


@dataclass
class Cost:
    """What requests of one kind cost."""

    request_ms: float
    """Of processor time, all threads together: the lower quartile, as others use the machine."""
    files: list[str]
    """Our files in the order in which one request enters them."""
    before: int
    """How many of them before the endpoint's own."""
    parts: Counter[str]
    """Samples by library or folder of ours."""


def main() -> None:
    """Print what each kind of request costs on each database."""
    parser = argparse.ArgumentParser(prog="python -m trials.load.cost", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--requests", type=int, default=300)
    arguments = parser.parse_args()
    for kind in [arguments.database] if arguments.database else ["sqlite", "postgresql"]:
        for name, cost in measure(kind, arguments.requests).items():
            sys.stdout.write(shown(f"{name} on {kind}", cost))


def measure(database: str, requests: int) -> dict[str, Cost]:
    """The cost of each kind of request, of so many each."""
    count = 2 * requests + 2
    plan = Plan(count, 1.0 - traffic.WARM_UP_S + 1e-9, Shape.REAL, workers=20, claims_per_s=count)
    with place(database) as (url, folder, _):
        settings = Settings(
            database_url=url, state_dir=folder, access=Access.TOKENS, requests_per_s=0
        )
        app = create_app(settings)
        material = Material.of(plan)
        attempts = traffic.prepare(app.state.database, folder, material, plan)
        due = list(traffic.requests(attempts, material.bodies, plan, [1]))
        by_kind = {
            kind: [one for one in due if f"/{_PATHS[kind]} " in _line(one)] for kind in _PATHS
        }
        try:
            beats = by_kind["heartbeat"]
            by_kind["heartbeat"] = (beats * count)[:count]
            return asyncio.run(_all(partial(ask, app), by_kind, requests))
        finally:
            app.state.database.close()


_PATHS = {"heartbeat": "heartbeat", "result": "result", "claim": "leases"}


def _line(due: Due) -> str:
    return due.head.partition(b"\r\n")[0].decode()


async def _all(ask: Send, by_kind: dict[str, list[Due]], requests: int) -> dict[str, Cost]:
    return {kind: await _cost(ask, due, requests) for kind, due in by_kind.items()}


async def _cost(ask: Send, due: Sequence[Due], requests: int) -> Cost:
    await ask(due[0])  # imports and caches
    spent_s = []
    for one in due[1 : requests + 1]:
        begun_s = time.process_time()
        await ask(one)
        spent_s.append(time.process_time() - begun_s)
    request_ms = 1e3 * quantiles(spent_s, n=4)[0]
    with mock.patch.object(asyncio.BaseEventLoop, "run_in_executor", _here):
        files, before = await _crossed(ask, due[requests + 1])
        parts = await _sampled(ask, due[requests + 2 :])
    return Cost(request_ms, files, before, parts)


def _here(
    loop: asyncio.AbstractEventLoop, _: object, work: Callable[[], Any]
) -> asyncio.Future[Any]:
    """Stands in for a thread, so that one profile holds all of a request."""
    done = loop.create_future()
    try:
        done.set_result(work())
    except Exception as fault:
        done.set_exception(fault)
    return done


async def _crossed(ask: Send, due: Due) -> tuple[list[str], int]:
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (ours := _ours(frame)):
            files.setdefault(ours)

    sys.setprofile(note)
    try:
        await ask(due)
    finally:
        sys.setprofile(None)
    listed = [name for name in files if not name.startswith("trials/")]
    return listed, listed.index("service/api/leases.py")


async def _sampled(ask: Send, due: Sequence[Due]) -> Counter[str]:
    parts: Counter[str] = Counter()
    signal.signal(signal.SIGPROF, lambda _number, frame: parts.update([_part(frame)]))
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
    try:
        for one in due:
            await ask(one)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return parts


def _part(frame: FrameType | None) -> str:
    """The library that runs, with the folder of ours that called it."""
    library = ""
    while frame is not None:
        if ours := _ours(frame):
            folder = "/".join(ours.split("/")[:2]).removesuffix(".py")
            return f"{folder} > {library}" if library else folder
        path = frame.f_code.co_filename
        known = next((name for name in LIBRARIES if f"/{name}/" in path), "")
        library = library or known or "python"
        frame = frame.f_back
    return library


def _ours(frame: FrameType) -> str:
    path = frame.f_code.co_filename
    if not path.startswith(str(ROOT)) or "/.venv/" in path:
        return ""
    return path[len(str(ROOT)) + 1 :]


async def ask(app: Any, due: Due) -> None:
    """Send one request to the application, and read its answer."""
    line, *fields = due.head.decode().strip().split("\r\n")
    method, path, _ = line.split(" ")
    headers = [tuple(part.encode() for part in one.lower().split(": ", 1)) for one in fields]
    # Tokens are in lower case anyway.
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "root_path": "", "state": {},
    }  # fmt: skip
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": due.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    assert statuses[0] < 300, f"{line}: {statuses}"


def shown(title: str, cost: Cost) -> str:
    """A cost in words and a table."""
    samples = cost.parts.total() or 1
    parts = "".join(
        f"  {cost.request_ms * count / samples:6.2f} ms  {part}\n"
        for part, count in cost.parts.most_common(14)
    )
    crossed = f"{len(cost.files)} files, {cost.before} before the endpoint"
    listed = " > ".join(name.removesuffix(".py") for name in cost.files)
    return f"\n{title}: {cost.request_ms:.2f} ms, {crossed}\n{parts}  {listed}\n"


if __name__ == "__main__":
    main()
