"""Every principal at every call of the API, about a thing of its own, a foreign and a missing one.

The calls come from the API's own description: one without a row here fails.
"""

from __future__ import annotations

import gzip
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import long_series as long
from builders.access import Doorman, guarded
from builders.service_hand import Hand, result_of
from builders.traces import a_trace_file
from fastapi.routing import iter_route_contexts
from sqlalchemy import select, update

from benchmarks.contracts import JobSpec, Lease
from service.analysis.statement import Statement
from service.auth.permissions import MAY, Permission, TokenKind
from service.database.session import now_of
from service.findings import pipeline
from service.models import (
    ChangeRow,
    DeliveryRow,
    FindingRow,
    FindingSeries,
    Job,
    Point,
    ResultRow,
    SeriesRow,
    Submission,
)
from service.outbox import deliveries

API = "/api/v1"
DATED = {"night": "2026-11-27"}
FOREIGN_POINT = {
    "benchmark": "sort",
    "metric": "time",
    "unit": "s",
    "direction": "lower",
    "values": [1.0],
    "revision": "r1",
}
THINGS = ("own", "foreign", "missing")
KINDS = ("read", "submit", "worker", "admin")
BOUND = {"bound read": "read", "bound submit": "submit"}
"""Who is bound to the project of its own things, with the kind of its token."""
PROJECTS = {"own": "ours", "foreign": "theirs"}
REVISIONS = {"own": "r1", "foreign": "r1-of-theirs"}
STRANGERS = ("none", "revoked", "expired")
EVERYBODY = (*STRANGERS, *KINDS, *BOUND)
ABSENT = "f" * 32
VERBS = ("start", "heartbeat", "result", "trace", "log", "release")


@dataclass(frozen=True)
class Row:
    """What a caller is answered who may call."""

    own: int = 200
    foreign: int | None = None
    missing: int | None = None
    worker: dict[str, int] = field(default_factory=dict)
    """Where a worker is answered otherwise than an administrator."""
    shared: bool = False
    """Whether it is about something that belongs to no project."""

    def expected(self, who: str, thing: str, *, allowed: bool) -> int | None:
        """The status; None where the call is about no such thing."""
        bound = who in BOUND and thing == "foreign" and not self.shared
        status: int | None = self.missing if bound else getattr(self, thing)
        if status is None or allowed:
            return self.worker.get(thing, status) if who == "worker" else status
        return 401 if who in STRANGERS else 403


def one(status: int = 200, missing: int = 404) -> Row:
    """A call about one thing; who is bound to a project is told that a foreign one is not there."""
    return Row(status, status, missing)


FENCED = {"foreign": 409}
TABLE: dict[str, Row] = {
    "GET /health": Row(),
    "GET /catalog": Row(),
    "GET /submissions": Row(),
    "POST /submissions": Row(201),
    "GET /submissions/{submission_id}": one(),
    "GET /submissions/{submission_id}/report": one(),
    "GET /jobs": Row(),
    "POST /jobs": Row(201),
    "GET /jobs/{job_id}": one(),
    "POST /jobs/{job_id}/cancel": one(),
    "PUT /workers/{name}": Row(200, 200, 200, {"foreign": 403, "missing": 403}),
    "GET /workers": Row(),
    "PUT /workers/{name}/drain": Row(200, 200, 404, shared=True),
    "DELETE /workers/{name}/drain": Row(200, 200, 404, shared=True),
    "POST /leases": Row(204, 204, 404, {"foreign": 403, "missing": 403}),
    "POST /jobs/{job_id}/attempts/{number}/start": Row(204, 204, 409, FENCED),
    "POST /jobs/{job_id}/attempts/{number}/heartbeat": Row(200, 200, 409, FENCED),
    "POST /jobs/{job_id}/attempts/{number}/result": Row(201, 201, 404, FENCED),
    "POST /jobs/{job_id}/attempts/{number}/trace": Row(201, 201, 404, FENCED),
    "POST /jobs/{job_id}/attempts/{number}/log": Row(201, 201, 404, FENCED),
    "POST /jobs/{job_id}/attempts/{number}/release": Row(204, 204, 409, FENCED),
    "GET /results": Row(),
    "GET /results/{result_id}": one(),
    "GET /results/{result_id}/exclusions": one(),
    "GET /results/{result_id}/trace": one(),
    "GET /results/{result_id}/log": one(),
    "PUT /results/{result_id}/exclusion": one(),
    "DELETE /results/{result_id}/exclusion": one(),
    "GET /series": Row(),
    "GET /series/{series_id}": one(),
    "GET /series/{series_id}/points": one(),
    "GET /series/{series_id}/analysis": one(),
    "GET /series/{series_id}/export": one(),
    "POST /imports": Row(),
    "GET /best": Row(),
    "GET /search": Row(),
    "GET /confirmations": Row(),
    "GET /findings": Row(),
    "GET /findings/report": Row(),
    "GET /findings/{finding_id}": one(),
    "GET /findings/{finding_id}/cost": one(),
    "POST /findings/{finding_id}/actions": one(),
    "PATCH /findings/{finding_id}": one(),
    "GET /thresholds": Row(),
    "PUT /thresholds": Row(),
    "DELETE /thresholds/{threshold_id}": one(204),
    "GET /annotations": Row(),
    "POST /annotations": Row(201),
    "DELETE /annotations/{annotation_id}": one(204),
    "GET /environments/{digest}": Row(200, 200, 404, shared=True),
    "GET /changes": Row(),
    "POST /comparisons": Row(201),
    "GET /comparisons": Row(),
    "GET /comparisons/{comparison_id}": one(),
    "GET /comparisons/{comparison_id}/cost": one(),
    "POST /comparisons/{comparison_id}/cancel": one(),
    "POST /bisections": Row(201),
    "GET /bisections": Row(),
    "GET /bisections/{bisection_id}": one(),
    "GET /bisections/{bisection_id}/cost": one(),
    "POST /bisections/{bisection_id}/cancel": one(),
    "GET /schedules": Row(),
    "GET /schedules/{name}": one(),
    "PUT /schedules/{name}": one(200, missing=200),
    "DELETE /schedules/{name}": one(204),
    "POST /schedules/{name}/fire": one(201),
    "GET /nights": Row(),
    "GET /nights/{night}": Row(),
    "GET /outbox": Row(),
    "POST /outbox/tests": Row(201),
    "POST /outbox/{delivery_id}/again": one(),
    "POST /outbox/{delivery_id}/dismiss": one(),
    "GET /tokens": Row(),
    "POST /tokens": Row(201),
    "POST /tokens/{token_id}/rotate": one(),
    "POST /tokens/{token_id}/revoke": one(),
    "GET /audit": Row(),
    "POST /enrolments": Row(201),
    "POST /enrolments/redeem": Row(201, missing=401),
    "POST /forges/{sink}/hook": Row(403, missing=404, shared=True),  # it is signed
}
BEYOND_READING = {
    "open": {"GET /health", "POST /enrolments/redeem", "POST /forges/{sink}/hook"},
    "submit": {
        "POST /bisections",
        "POST /bisections/{bisection_id}/cancel",
        "POST /comparisons",
        "POST /comparisons/{comparison_id}/cancel",
        "POST /imports",
        "POST /jobs",
        "POST /jobs/{job_id}/cancel",
        "POST /schedules/{name}/fire",
        "POST /submissions",
    },
    "triage": {
        "POST /annotations",
        "DELETE /annotations/{annotation_id}",
        "POST /findings/{finding_id}/actions",
        "PATCH /findings/{finding_id}",
        "DELETE /results/{result_id}/exclusion",
        "PUT /results/{result_id}/exclusion",
    },
    "work": {
        "POST /leases",
        "PUT /workers/{name}",
        *(f"POST /jobs/{{job_id}}/attempts/{{number}}/{verb}" for verb in VERBS),
    },
    "admin": {
        "DELETE /schedules/{name}",
        "DELETE /thresholds/{threshold_id}",
        "PUT /thresholds",
        "PUT /workers/{name}/drain",
        "DELETE /workers/{name}/drain",
        "PUT /schedules/{name}",
        "GET /audit",
        "POST /outbox/tests",
        "POST /outbox/{delivery_id}/again",
        "POST /outbox/{delivery_id}/dismiss",
        "GET /tokens",
        "POST /tokens",
        "POST /tokens/{token_id}/revoke",
        "POST /tokens/{token_id}/rotate",
        "POST /enrolments",
    },
}
"""What each permission but reading is for."""
SPEC = {"case": {"workload": "unet", "axes": {}}, "revision": "r1"}
SCHEDULE = {
    "cron": "0 2 * * *",
    "timezone": "UTC",
    "suite": "smoke",
    "revision_rule": "date",
    "requires": {},
    "enabled": True,
}
THRESHOLD = {"least_effect": 0.03, "actor": "ann", "reason": "noisy"}
ATTEMPT = "/jobs/{job_id}/attempts/{number}/"
SINKS = """
address = "https://perf.example.com"
[[sink]]
name = "ci"
kind = "slack"
url = "https://chat.example.com/1"
[[sink]]
name = "hub"
kind = "github"
token = "t"
repositories = ["acme/vision"]
hook_secret = "s"
"""
SECRET = "The foreign finding's sentence."


def copy_of(row: Any, **otherwise: object) -> Any:
    """Another row with the same values but these."""
    return type(row)(
        **{each.key: getattr(row, each.key) for each in type(row).__table__.c} | otherwise
    )


class World:
    """A service with something of everything, and one token of each kind."""

    def __init__(self, doorman: Doorman) -> None:
        self.doorman = doorman
        self.client = doorman.client
        self.tokens: dict[str, str | None] = {
            "none": None,
            "revoked": doorman.revoked(),
            "expired": doorman.expired(),
            "read": doorman.token("read"),
            "submit": doorman.token("submit"),
            "worker": doorman.token("worker", "w1"),
            "admin": doorman.token("admin"),
        }
        for who, kind in BOUND.items():
            self.tokens[who] = doorman.token(kind, project=PROJECTS["own"])
        self.hands = {"own": Hand(self.client, "w1"), "foreign": Hand(self.client, "w2")}
        findings = self._findings()
        self._as_admin(lambda: [hand.introduce(device="cpu") for hand in self.hands.values()])
        self.ids = {
            thing: {"worker": hand.name, "revision": REVISIONS[thing]}
            | self._things(thing)
            | findings[thing]
            | DATED
            for thing, hand in self.hands.items()
        }

    def _as_admin(self, work: Any) -> Any:
        self.client.headers["Authorization"] = f"Bearer {self.tokens['admin']}"
        try:
            return work()
        finally:
            del self.client.headers["Authorization"]

    def _made(self, path: str, body: Any, who: str = "admin", method: str = "POST") -> Any:
        answer = self.doorman.ask(method, f"{API}{path}", self.tokens[who], json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def _things(self, thing: str) -> dict[str, str]:
        """Something of each kind, in its project: one's own without a word of it."""
        who = "bound submit" if thing == "own" else "admin"
        said = {} if thing == "own" else {"project": PROJECTS[thing]}
        at = REVISIONS[thing]
        spec = SPEC | said | {"revision": at}
        result = self._as_admin(lambda: self._measured(thing))
        stored = self.doorman.ask("GET", f"{API}/results/{result}", self.tokens["read"]).json()
        comparison = {"baseline": at, "contender": at, "case": SPEC["case"], **said}
        range_ = {"commits": [{"revision": at}, {"revision": f"{at}-b"}], "case": SPEC["case"]}
        self._schedule(thing)
        return {
            "bisection_id": self._made("/bisections", range_ | said, who)["id"],
            "submission_id": self._made("/submissions", spec, who)["id"],
            "job_id": self._made("/jobs", spec, who)["id"],
            "result_id": result,
            "series_id": self._series(result),
            "digest": stored["environment"],
            "comparison_id": self._made("/comparisons", comparison, who)["id"],
            "name": f"{thing}-nightly",
            "threshold_id": self._threshold(thing),
            "annotation_id": self._annotation(thing),
        }

    def _threshold(self, thing: str) -> str:
        wanted = THRESHOLD | {"project": PROJECTS[thing]}
        return str(self._made("/thresholds", wanted, method="PUT")["id"])

    def _annotation(self, thing: str) -> str:
        """What somebody wrote in a project; and in none, about a revision that is the foreign's."""
        about = {"text": f"of {thing}", "revision": REVISIONS[thing]}
        self._made("/annotations", about)
        return str(self._made("/annotations", about | {"project": PROJECTS[thing]})["id"])

    def _schedule(self, thing: str) -> None:
        wanted = SCHEDULE | {"project": PROJECTS[thing]}
        self._made(f"/schedules/{thing}-nightly", wanted, method="PUT")

    def _series(self, result_id: str) -> str:
        with self.doorman.database.reading() as session:
            of_result = select(Point.series_id).where(Point.result_id == result_id)
            return str(session.scalars(of_result.limit(1)).one())

    def _measured(self, thing: str) -> str:
        lease = self._finished(thing)
        answer = self.hands[thing].post_trace(lease, a_trace_file())
        self.hands[thing].post_log(lease, gzip.compress(b"a log"))
        return str(answer.json()["result_id"])

    def _finished(self, thing: str) -> Lease:
        lease = self._lease(thing)
        self.hands[thing].post(lease, result_of(lease))
        return lease

    def _lease(self, thing: str) -> Lease:
        hand = self.hands[thing]
        wanted = {"requires": {"worker": hand.name}, "protocol": {"trace": True}}
        owner = {"project": PROJECTS[thing], "revision": REVISIONS[thing]}
        spec = {**SPEC, **wanted, **owner, "priority": 50}
        assert self.client.post(f"{API}/jobs", json=spec).status_code == 201
        return hand.must_claim()

    def _findings(self) -> dict[str, dict[str, str]]:
        """One finding of each project, the foreign one a copy. Before there is anything else."""
        noise = np.exp(np.random.default_rng(2).normal(0, 0.003, 32))
        level = np.array([100.0] * 20 + [95.0] * 12) * noise
        with self.doorman.database.writing() as session:
            long.prepare(session, project=PROJECTS["own"])
            values = {n: float(v) for n, v in enumerate(level)}
            long.add(session, values, project=PROJECTS["own"])
        pipeline.look(self.doorman.database)
        with self.doorman.database.writing() as session:
            for model in (Submission, Job, SeriesRow, FindingRow):
                session.execute(update(model).values(project=PROJECTS["own"]))
            own = session.scalars(select(FindingRow)).one()
            about = session.scalars(select(FindingSeries).limit(1)).one()
            series = session.get_one(SeriesRow, about.series_id)
            new = {"project": PROJECTS["foreign"], "id": "a" * 32}
            copies = (
                copy_of(series, **new),
                copy_of(own, **new, says=Statement.of("remark", text=SECRET).stored()),
            )
            session.add_all(copies)
            session.flush()
            change = session.get_one(ChangeRow, about.change_id)
            session.add(copy_of(change, id="a" * 32, series_id="a" * 32))
            session.flush()
            foreign = {"series_id": "a" * 32, "finding_id": "a" * 32, "change_id": "a" * 32}
            session.add(copy_of(about, **foreign))
        return {"own": {"finding_id": own.id}, "foreign": {"finding_id": "a" * 32}}

    def status(self, who: str, call: str, thing: str, *, allowed: bool) -> int:
        """What the call is answered, about that thing."""
        method, _, path = call.partition(" ")
        ids = self._ids(path, thing, fresh=allowed)
        asked = self._asked(call, thing, ids)
        if (call, thing) == ("PUT /schedules/{name}", "missing"):
            ids["name"] = "new"
        where = path.format(**ids)
        answer = self.doorman.ask(method, f"{API}{where}", self.tokens[who], **asked)
        if answer.status_code in (401, 429):
            assert answer.headers.keys() & {"www-authenticate", "retry-after"}
        if call == "POST /leases" and answer.status_code == 200:
            return 204  # whether there is a job is not what is asked here
        return int(answer.status_code)

    def _ids(self, path: str, thing: str, *, fresh: bool) -> dict[str, str]:
        absent = dict.fromkeys(
            (
                *("submission_id", "job_id", "result_id", "series_id", "comparison_id"),
                *("bisection_id", "finding_id", "threshold_id", "delivery_id", "annotation_id"),
            ),
            ABSENT,
        ) | {
            "digest": "0" * 64,
            # Another call introduces the missing worker.
            "name": "nobody" if path.endswith("/drain") else "none",
            "number": "1",
            "token_id": "0" * 16,
            "sink": "none",
            **DATED,
        }
        if thing == "missing":
            return absent
        ids = absent | {"sink": "hub"} | self.ids[thing]
        if path.startswith("/workers"):
            ids["name"] = self.hands[thing].name
        if not fresh:
            return ids
        if path.startswith(ATTEMPT):
            make = self._finished if path.endswith(("/trace", "/log")) else self._lease
            lease = self._as_admin(lambda: make(thing))
            ids |= {"job_id": lease.job_id, "number": str(lease.attempt), "secret": lease.secret}
        if path.startswith("/tokens/"):
            ids["token_id"] = self.doorman.make("read").id
        ids |= self._remade(path, thing)
        if path.startswith("/outbox/"):
            ids["delivery_id"] = self._dead_letter()
        if path.endswith("/actions"):
            with self.doorman.database.writing() as session:
                session.execute(update(FindingRow).values(state="open"))
        return ids

    def _remade(self, path: str, thing: str) -> dict[str, str]:
        """Make again what a call before this one may have deleted."""
        if path.startswith("/schedules/"):
            self._schedule(thing)
        if path.startswith("/thresholds/"):
            self._threshold(thing)
        if path.startswith("/annotations/"):
            return {"annotation_id": self._annotation(thing)}
        return {}

    def _dead_letter(self) -> str:
        with self.doorman.database.writing() as session:
            made = deliveries.test(session, "ci", now_of(session))
            session.execute(update(DeliveryRow).values(state="dead"))
        return made

    def _asked(self, call: str, thing: str, ids: dict[str, str]) -> dict[str, Any]:
        """Body, query and headers of a call that would be good if it is allowed."""
        worker = self.hands[thing].name if thing in self.hands else "w9"
        if ATTEMPT in call:
            verb = call.rpartition("/")[2]
            headers = {"Lease-Secret": ids.get("secret", "0" * 64)}
            if verb in ("trace", "log"):
                typed = headers | {"Content-Type": "application/gzip"}
                return {"content": a_trace_file(), "headers": typed}
            return {"json": self._told(verb), "headers": headers}
        bodies: dict[str, Any] = {
            "POST /submissions": SPEC,
            "POST /jobs": SPEC,
            "POST /imports": {"source": "asv", "points": [FOREIGN_POINT]},
            "POST /comparisons": {"baseline": "r1", "contender": "r1", "case": SPEC["case"]},
            "POST /bisections": {
                "commits": [{"revision": "r1"}, {"revision": "r2"}],
                "case": SPEC["case"],
            },
            "PUT /workers/{name}": {"name": ids["name"] if thing == "missing" else worker},
            "POST /leases": {"worker": worker, "claim_id": uuid.uuid4().hex},
            "PUT /results/{result_id}/exclusion": {"reason": "cold", "actor": "ann"},
            "POST /findings/{finding_id}/actions": {"action": "acknowledge", "actor": "ann"},
            "PATCH /findings/{finding_id}": {"actor": "ann", "note": "seen"},
            "PUT /schedules/{name}": SCHEDULE,
            "PUT /thresholds": THRESHOLD,
            "POST /annotations": {"text": "a note", "revision": "r1"},
            "PUT /workers/{name}/drain": {"reason": "fan broken"},
            "POST /tokens": {"kind": "read", "name": "wall"},
            "POST /enrolments": {"worker": "w3"},
            "POST /outbox/tests": {"sink": "ci"},
        }
        queries = {
            "GET /changes": {"baseline": "r1", "contender": "r1"},
            "DELETE /results/{result_id}/exclusion": {"actor": "ann"},
        }
        if call == "POST /enrolments/redeem":
            wanted = {"worker": "w3"}  # a code for anybody would take its name but once
            good = self._made("/enrolments", wanted)["code"] if thing == "own" else "tl_enrol_none"
            return {"json": {"code": good, "worker": "w3"}}
        if call in bodies:
            return {"json": bodies[call]}
        return {"params": queries[call]} if call in queries else {}

    def _told(self, verb: str) -> Any:
        if verb == "result":
            return result_of(JobSpec.model_validate(SPEC)).model_dump(mode="json")
        return {"heartbeat": {}, "release": {"reason": ""}}.get(verb)


@contextmanager
def serving(database_url: str, folder: Path) -> Iterator[World]:
    unlimited = {"failures_per_min": 0.0, "requests_per_s": 0.0}
    sinks = folder / "outbox.toml"
    sinks.write_text(SINKS)
    with guarded(database_url, folder, **unlimited, outbox=sinks) as doorman:
        yield World(doorman)


@pytest.fixture(scope="module", params=["sqlite"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """For tests that change nothing in it. On PostgreSQL too where statements leave rows out; who
    may call what is decided before any.
    """
    folder = tmp_path_factory.mktemp("world")
    with ExitStack() as lent:
        if request.param == "sqlite":
            template = request.getfixturevalue("sqlite_template")
            url = f"sqlite:///{shutil.copyfile(template, folder / 'world.sqlite3')}"
        else:
            databases = request.getfixturevalue("lent_databases")
            name = lent.enter_context(databases.lent())
            url = request.getfixturevalue("postgres").url(name)
        yield lent.enter_context(serving(url, folder))


both = pytest.mark.parametrize(
    "world", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)


def permissions(world: World) -> dict[str, Permission]:
    """Every call of the API with what its route declares, as the description says it."""
    document = world.client.get(f"{API}/openapi.json").json()
    return {
        f"{method.upper()} {path.removeprefix(API)}": Permission(operation["x-permission"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def allows(permission: Permission, who: str) -> bool:
    """Whether somebody may call what asks for a permission."""
    kind = BOUND.get(who, who)
    return permission is Permission.OPEN or (kind in KINDS and permission in MAY[TokenKind(kind)])


def test_nothing_else_asks_for_another_permission_than_to_read(world: World) -> None:
    found: dict[str, set[str]] = {}
    for call, permission in permissions(world).items():
        found.setdefault(permission.value, set()).add(call)
    assert found.pop("read") == set(TABLE).difference(*BEYOND_READING.values())
    assert found == BEYOND_READING


def test_every_principal_gets_what_the_table_says(sqlite_url: str, tmp_path: Path) -> None:
    with serving(sqlite_url, tmp_path) as world:
        every_principal(world)


def every_principal(world: World) -> None:
    needed = permissions(world)
    assert set(needed) == set(TABLE), "a call without a row, or a row without a call"
    wrong = []
    asked = 0
    # Strangers first: what they are refused must not depend on what others have done.
    for who in EVERYBODY:
        for call, row in TABLE.items():
            for thing in THINGS:
                allowed = allows(needed[call], who)
                expected = row.expected(who, thing, allowed=allowed)
                if expected is None:
                    continue
                found = world.status(who, call, thing, allowed=allowed)
                asked += 1
                if found != expected:
                    wrong.append(f"{who}: {call}, {thing}: {found}, not {expected}")
    assert not wrong, "\n".join(wrong)
    assert asked > 900


ENDLESS = {"/live": "/live?wait_s=0"}
"""Queries that end, at its beginning, a stream that goes on until the client leaves."""


def pages(world: World) -> set[str]:
    app: Any = world.client.app
    found = {
        ENDLESS.get(str(route.path), str(route.path).replace(":path", ""))
        for route in iter_route_contexts(app.routes)
        if not str(route.path).startswith(("/api", "/assets", "/sign-in"))
        and "GET" in (route.methods or ())
    }
    assert len(found) >= 13
    return found


FOR_ADMINISTRATORS = {"/tokens"}
"""Pages that whoever may only read does not see."""


def test_every_page_wants_a_token_that_may_read(world: World) -> None:
    assert pages(world) >= FOR_ADMINISTRATORS
    for page in pages(world):
        path = page.format(**world.ids["own"])
        for who in EVERYBODY:
            found = world.doorman.ask("GET", path, world.tokens[who]).status_code
            refused = who == "worker" or (page in FOR_ADMINISTRATORS and who != "admin")
            expected = 401 if who in STRANGERS else 403 if refused else 200
            assert found == expected, f"{who}: {page}"


@both
def test_a_page_about_a_foreign_thing_is_not_there_for_who_is_bound(world: World) -> None:
    for page in pages(world) - FOR_ADMINISTRATORS:
        path = page.format(**world.ids["foreign"])
        for who in ("read", *BOUND):
            found = world.doorman.ask("GET", path, world.tokens[who]).status_code
            # A date and a worker are everybody's.
            theirs = "{" in page and not {"/nights/{night}", "/workers/{worker}"} & {page}
            assert found == (404 if who in BOUND and theirs else 200), f"{who}: {page}"


def told(world: World, who: str, thing: str = "own") -> dict[str, str]:
    """Everything that somebody may read, by its path: lists, reports, pages and files."""
    queries = {"GET /changes": {"baseline": "r1", "contender": "r1"}}
    see = [
        call
        for call, asked in permissions(world).items()
        if call.startswith("GET") and allows(asked, who)
    ]
    paths = [(f"{API}{call.partition(' ')[2]}", queries.get(call, {})) for call in see]
    paths += [(page, {}) for page in pages(world) - FOR_ADMINISTRATORS]
    answers = {}
    for path, query in paths:
        where = path.format(**world.ids[thing])
        answer = world.doorman.ask("GET", where, world.tokens[who], params=query or None)
        assert answer.status_code == 200, f"{who}: {where}: {answer.text}"
        answers[path] = answer.text
    return answers


@both
def test_nothing_that_who_is_bound_may_read_tells_of_a_foreign_thing(world: World) -> None:
    secrets = {SECRET, PROJECTS["foreign"], REVISIONS["foreign"]}
    foreign = world.ids["foreign"]
    shared = {foreign["digest"], foreign["worker"], *world.ids["own"].values()}
    secrets |= set(foreign.values()) - shared
    with world.doorman.database.reading() as session:
        for model in (Submission, Job, ResultRow, SeriesRow):
            theirs = select(model.id).where(model.project != PROJECTS["own"])
            secrets |= set(session.scalars(theirs))
    assert len(secrets) > 15
    for who in BOUND:
        for path, text in told(world, who).items():
            assert not {one for one in secrets if one in text}, f"{who}: {path}"
    lists = {
        path for path, text in told(world, "read").items() if any(one in text for one in secrets)
    }
    assert {f"{API}/{noun}" for noun in LISTS} | {"/", "/findings", "/jobs"} <= lists


LISTS = (
    *("submissions", "jobs", "results", "series", "findings", "comparisons", "bisections"),
    "schedules",
)


@both
def test_a_refused_call_changes_nothing(world: World) -> None:
    audited = world.doorman.ask("GET", f"{API}/audit?limit=500", world.tokens["admin"]).json()
    for call, permission in permissions(world).items():
        for who in EVERYBODY:
            if not allows(permission, who):
                world.status(who, call, "own", allowed=False)
    after = world.doorman.ask("GET", f"{API}/audit?limit=500", world.tokens["admin"]).json()
    assert audited["items"] == after["items"]


def test_pages_say_of_which_project_a_thing_is(world: World) -> None:
    pages = told(world, "read")
    chip = f'<span class="axis">project</span> {PROJECTS["own"]}'
    for page in ("/", "/findings", "/jobs", "/schedules", "/comparisons"):
        assert chip in pages[page], page
    things = ("jobs/{job_id}", "series/{series_id}", "findings/{finding_id}")
    for thing in (*things, "runs/{result_id}", "comparisons/{comparison_id}"):
        assert chip in pages[f"/{thing}"], thing
    for page in ("/workers", "/jobs/{job_id}"):
        assert PROJECTS["own"] in told(world, "bound read")[page], page
