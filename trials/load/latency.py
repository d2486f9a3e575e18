"""How long one request takes on a connection that is kept, beside the same from a bare server."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

from builders.bare import answering, timed

from service.auth import signing_key, token_store
from service.auth.token_store import TokenRequest
from service.database.session import Database, now_of
from service.schemas.access import TokenKind
from trials.chaos.__main__ import place
from trials.chaos.replica import Replica
from trials.load import traffic
from trials.load.spread import spread
from trials.load.traffic import LiveAttempt, Material, Plan, Shape

HEALTH = "/api/v1/health"
PAGE = "/workers"
WARM_UP = 20
"""Requests of each kind that are sent first and not timed."""


def measure(kind: str, requests: int) -> dict[str, Any]:
    """The row of one database: each request of every kind in turn, one after the other."""
    with place(kind) as (url, folder, _):
        database = Database(url)
        plan = Plan(results_per_s=0, seconds=0, shape=Shape.REAL, workers=1)
        (attempt,) = traffic.prepare(database, folder, Material.of(plan), plan)
        with database.writing() as session:
            request = TokenRequest(kind=TokenKind.READ, name="reader")
            token = token_store.create(
                session, signing_key.load(folder), request, now_of(session), None
            ).token
        database.close()
        replica = Replica(url, folder, STATE_DIR=str(folder), **traffic.SETTINGS)
        try:
            replica.start()
            replica.wait()
            took_s = _timed(replica.port, attempt, token, requests)
        finally:
            replica.kill()
    figures = {name: spread(of_kind) for name, of_kind in took_s.items()}
    return {"bar": "latency", "database": kind, "requests": requests} | figures


def _timed(port: int, attempt: LiveAttempt, token: str, requests: int) -> dict[str, list[float]]:
    """How many s each request took, by what was asked."""
    beat = f"/api/v1/jobs/{attempt.job_id}/attempts/1/heartbeat"
    worker = {"Authorization": f"Bearer {attempt.token}", "Lease-Secret": attempt.secret}
    line = HTTPConnection("127.0.0.1", port)
    _, health = timed(line, "GET", HEALTH)
    took_s: dict[str, list[float]] = {"bare": [], "health": [], "page": [], "heartbeat": []}
    with answering(health) as bare_port:
        bare = HTTPConnection("127.0.0.1", bare_port)
        for number in range(-WARM_UP, requests):
            round_s = {
                "bare": timed(bare, "GET", HEALTH)[0],
                "health": timed(line, "GET", HEALTH)[0],
                "page": timed(line, "GET", PAGE, Authorization=f"Bearer {token}")[0],
                "heartbeat": timed(
                    line, "POST", beat, b"{}", **worker, **{"Content-Type": "application/json"}
                )[0],
            }
            for name, one_s in round_s.items() if number >= 0 else ():
                took_s[name].append(one_s)
        bare.close()
    line.close()
    return took_s
