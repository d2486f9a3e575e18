"""Pull requests: a status that follows the gate and one comment, whatever the forge does."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from builders.forges import HEAD, Call, FakeForge, FakeGerrit, FakeGitHub, FakeGitLab, serving
from builders.gate_hand import GateHand, asked, steady
from builders.served import wait_until
from builders.service_hand import Hand
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from benchmarks.contracts import Status
from service.app import create_app
from service.database.session import Database, now_of
from service.models import DeliveryRow, ForgeComment
from service.outbox import couriers, deliveries, forge_comments
from service.outbox.sinks import Sinks
from service.outbox.sinks import github as github_sink
from service.schemas.outbox import DeliveryState
from service.settings import Settings

pytestmark = pytest.mark.both_databases

ADDRESS = "https://perf.example.com"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.TraditionalOpenSSL,
    serialization.NoEncryption(),
).decode()
PULL = {"forge": "github", "repository": "acme/vision", "number": 12, "head": HEAD}
Fault = tuple[int, dict[str, str], Any]


@dataclass
class Told:
    """A service that tells one forge."""

    forge: FakeForge
    gate: GateHand
    sinks: Sinks

    @property
    def database(self) -> Database:
        database: Database = self.gate.client.app.state.database  # type: ignore[attr-defined]
        return database

    def start(self, **more: Any) -> dict[str, Any]:
        return self.gate.start(**({"pull_request": PULL} | more))

    def deliver(self, within_s: float = 5) -> int:
        """Send what is due; how many attempts that were."""
        couriers.route(self.database, self.sinks)
        [sink] = self.sinks.sink
        count = 0
        while couriers.deliver(self.database, sink, self.sinks.address, within_s):
            count += 1
        return count

    def again(self, within_s: float = 5) -> int:
        """The same after every pause is over."""
        with self.database.writing() as session:
            past = now_of(session) - timedelta(seconds=1)
            waiting = DeliveryRow.state == DeliveryState.WAITING
            session.execute(update(DeliveryRow).where(waiting).values(due_at=past))
            session.execute(update(ForgeComment).values(held_until=past))
        return self.deliver(within_s)

    def rows(self) -> list[DeliveryRow]:
        with self.database.reading() as session:
            return list(session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)))

    def states(self) -> list[str]:
        return [row.state for row in self.rows()]

    def bodies(self) -> list[str]:
        return [str(one["body"]) for one in self.forge.comments.values()]


def telling(forge: FakeForge, client: TestClient, hand: Hand, **sink: Any) -> Told:
    known = {"name": "forge", "private": True} | sink
    document = {"address": ADDRESS, "sink": [known]}
    return Told(forge, GateHand(client, hand), Sinks.model_validate(document))


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    forge = FakeGitHub()
    forge.signed = lambda token: bool(
        jwt.decode(token, KEY.public_key(), ["RS256"], issuer="41", options={"require": ["exp"]})
    )
    with serving(forge):
        yield forge


@pytest.fixture
def told(github: FakeGitHub, client: TestClient, hand: Hand) -> Told:
    what = {"kind": "github", "api": github.url(), "repositories": ["acme/vision"]}
    return telling(github, client, hand, token=github.token, **what)


@pytest.fixture
def by_app(github: FakeGitHub, client: TestClient, hand: Hand) -> Told:
    github_sink._KEPT.clear()
    what = {"kind": "github", "api": github.url(), "repositories": ["acme/vision"]}
    return telling(github, client, hand, app=41, private_key=PEM, **what)


def test_a_status_and_one_comment_follow_the_gate(told: Told) -> None:
    forge = told.forge
    assert isinstance(forge, FakeGitHub)
    told.start()
    assert told.deliver() == 1
    [status] = forge.statuses
    assert (status["sha"], status["state"], status["context"]) == (
        HEAD,
        "pending",
        "throughline/cases",
    )
    assert status["description"] == "Measuring 1 case."
    [before] = told.bodies()
    told.gate.measure(steady(0.95))
    assert told.deliver() == 1
    assert [one["state"] for one in forge.statuses] == ["pending", "failure"]
    said = "Regression in 1 of 1 case: \u22125.0 % throughput ("
    assert forge.statuses[-1]["description"].startswith(said)
    [after] = told.bodies()
    marker = "<!-- throughline gate https://perf.example.com -->\n"
    assert before.startswith(marker)
    assert after.startswith(f"{marker}**Regression in 1 of 1 case: ")
    assert told.states() == ["delivered", "delivered"]


@pytest.mark.both_databases(slow="postgresql")
@pytest.mark.parametrize(
    ("level", "more", "state", "conclusion", "said"),
    [
        (1.0, {}, "success", "success", "No regression in 1 case."),
        (
            1.05,
            {},
            "success",
            "success",
            "No regression, and 1 of 1 case better: +5.0 % throughput",
        ),
        (0.95, {}, "failure", "failure", "Regression in 1 of 1 case"),
        (
            1.0,
            {"status": Status.OOM},
            "error",
            "failure",
            "Nothing could be compared. 1 case: failed.",
        ),
    ],
    ids=["same", "better", "worse", "no data"],
)
def test_it_is_green_only_with_data(
    told: Told,
    by_app: Told,
    level: float,
    more: dict[str, Any],
    state: str,
    conclusion: str,
    said: str,
) -> None:
    told.start()
    told.gate.measure(steady(level, **more))
    told.deliver()
    forge = told.forge
    assert isinstance(forge, FakeGitHub)
    assert forge.statuses[-1]["state"] == state
    assert said in forge.statuses[-1]["description"]
    with told.database.writing() as session:
        session.execute(update(DeliveryRow).values(state="waiting", sink="forge", attempts=0))
    by_app.again()
    [run] = forge.check_runs.values()
    assert (run["status"], run["conclusion"]) == ("completed", conclusion)
    assert said in run["output"]["title"]


@pytest.mark.both_databases(slow="postgresql")
def test_an_app_has_a_check_run_that_is_changed_in_place(by_app: Told) -> None:
    forge = by_app.forge
    assert isinstance(forge, FakeGitHub)
    started = by_app.start()
    by_app.deliver()
    [run] = forge.check_runs.values()
    assert (run["status"], run["name"], run["head_sha"]) == (
        "in_progress",
        "throughline/cases",
        HEAD,
    )
    assert run["details_url"] == f"{ADDRESS}/comparisons/{started['id']}"
    by_app.gate.client.post(f"/api/v1/comparisons/{started['id']}/cancel")
    by_app.deliver()
    [run] = forge.check_runs.values()
    assert run["conclusion"] == "cancelled"
    [body] = by_app.bodies()
    assert "**Cancelled: nothing was decided.**" in body
    assert len(forge.asked("POST /app/installations/.*")) == 1, "the token is kept"
    assert forge.statuses == []


@pytest.mark.both_databases(slow="postgresql")
def test_an_installation_token_that_ended_is_made_anew(by_app: Told) -> None:
    forge = by_app.forge
    assert isinstance(forge, FakeGitHub)
    by_app.start()
    by_app.deliver()
    forge.tokens.clear()
    by_app.gate.measure(steady())
    by_app.deliver()
    [_, row] = by_app.rows()
    assert row.error == (
        f"GitHub answered 401 to GET /repos/acme/vision/commits/{HEAD}/check-runs: Bad credentials"
    )
    by_app.again()
    assert by_app.states() == ["delivered", "delivered"]


@pytest.mark.parametrize("who", ["told", "by_app"])
def test_a_crash_after_the_comment_was_made_makes_no_second_one(
    who: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Told = request.getfixturevalue(who)
    told.start()
    with monkeypatch.context() as patch:
        patch.setattr(forge_comments.HeldComment, "keep", _killed)
        with pytest.raises(SystemExit):
            told.deliver()
    assert told.again() == 1
    assert len(told.bodies()) == 1
    assert told.states() == ["delivered"]
    assert len(told.forge.asked("POST /repos/acme/vision/issues/12/comments")) == 1


def _killed(*_: object) -> None:
    raise SystemExit


def test_an_answer_that_is_lost_makes_no_second_comment(told: Told) -> None:
    lost = iter(["lost"])
    told.forge.fault = lambda call: (
        next(lost, None) if str(call).startswith("POST") and "comments" in call.path else None
    )
    told.start()
    told.deliver()
    assert "The connection failed" in told.rows()[0].error
    told.again()
    assert len(told.bodies()) == 1
    assert told.states() == ["delivered"]


@pytest.mark.both_databases(slow="postgresql")
def test_a_comment_that_was_deleted_is_made_again_and_a_strangers_left_alone(told: Told) -> None:
    forge = told.forge
    assert isinstance(forge, FakeGitHub)
    marker = f"<!-- throughline gate {ADDRESS} -->\n"
    forge.say(12, f"{marker}I am green", user=666)
    for number in range(150):
        forge.say(12, f"noise {number}", user=666)
    told.start()
    told.deliver()
    own = [one for one in forge.comments.values() if one["user"]["id"] == forge.me]
    del forge.comments[own[0]["id"]]
    told.gate.measure(steady())
    told.deliver()
    bodies = [one["body"] for one in forge.comments.values() if one["user"]["id"] == forge.me]
    assert len(bodies) == 1
    assert "No regression" in bodies[0]
    assert f"{marker}I am green" in told.bodies()


def limited(status: int, message: str, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, named, {"message": message, "documentation_url": "https://docs.github.com"}


LIMIT = "API rate limit exceeded for user ID 5."
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes."
RESETS = limited(403, LIMIT, x_ratelimit_remaining="0", x_ratelimit_reset="+200")
INVALID = {"message": "Validation Failed", "errors": [{"resource": "Status", "code": "custom"}]}


@pytest.mark.both_databases(slow="postgresql")
@pytest.mark.parametrize(
    ("reply", "state", "wait_s", "said"),
    [
        (limited(429, SECONDARY, retry_after="90"), "waiting", 90, SECONDARY),
        (limited(403, SECONDARY), "waiting", 60, SECONDARY),
        (RESETS, "waiting", 200, LIMIT),
        (limited(403, "Resource not accessible by personal access token"), "waiting", 0, "403"),
        (limited(404, "Not Found"), "waiting", 0, "Not Found"),
        (limited(401, "Bad credentials"), "waiting", 0, "Bad credentials"),
        ((422, {}, INVALID), "dead", 0, "422 to POST /repos/acme/vision/statuses/"),
        ((500, {}, "oops"), "waiting", 0, "oops"),
        ((502, {}, "<html>Unicorn!</html>"), "waiting", 0, "Unicorn"),
        (
            (301, {"Location": "http://127.0.0.1:1/"}, ""),
            "waiting",
            0,
            "redirects are not followed",
        ),
        ((200, {}, "no json"), "waiting", 0, "answered with what is no JSON"),
        ((401, {}, {"message": "ghp_0123456789secret is wrong"}), "waiting", 0, "*** is wrong"),
    ],
)
def test_each_refusal_is_tried_again_or_dead_with_its_sentence(
    told: Told,
    caplog: pytest.LogCaptureFixture,
    reply: Fault,
    state: str,
    wait_s: float,
    said: str,
) -> None:
    forge = told.forge
    headers = {
        name: str(int(time.time() + int(value))) if value.startswith("+") else value
        for name, value in reply[1].items()
    }
    faults = iter([(reply[0], headers, reply[2])])
    forge.fault = lambda _: next(faults, None)
    told.start()
    told.deliver()
    [row] = told.rows()
    assert (row.state, said in row.error) == (state, True), row.error
    assert "0123456789secret" not in row.error + caplog.text
    with told.database.reading() as session:
        due_s = (row.due_at - now_of(session)).total_seconds()
    assert wait_s - 5 < due_s <= wait_s + 6
    if state == "waiting":
        told.again()
        assert told.states() == ["delivered"]
        assert len(told.bodies()) == 1


@pytest.mark.both_databases(slow="postgresql")
@pytest.mark.parametrize("fault", ["hang", "close"])
def test_a_forge_that_does_not_answer_is_asked_again(told: Told, fault: str) -> None:
    faults = iter([fault])
    told.forge.fault = lambda _: next(faults, None)
    told.start()
    told.deliver(within_s=0.3)
    [row] = told.rows()
    assert row.error in ("No answer within 0.3 s.", "The connection failed (RemoteProtocolError).")
    told.again()
    assert told.states() == ["delivered"]


def test_two_gates_of_one_pull_request_share_the_comment(told: Told) -> None:
    told.start()
    told.start(case=None, cases=[{"workload": "resnet50"}, {"workload": "unet"}])
    told.start(suite="smoke")
    assert told.deliver() == 3
    [body] = told.bodies()
    assert body.count("Every number") == 2, "of the same name the newest counts"
    assert "**cases: Measuring 2 cases.**" in body
    assert "**smoke: Measuring" in body


def test_a_new_head_takes_over_the_comment_and_leaves_the_old_status(told: Told) -> None:
    forge = told.forge
    assert isinstance(forge, FakeGitHub)
    told.start()
    told.gate.measure(steady(0.9))
    told.deliver()
    told.start(contender="newer", pull_request=PULL | {"head": "e" * 40})
    told.deliver()
    [body] = told.bodies()
    assert "Measuring 1 case." in body
    assert "Regression" not in body
    assert [(one["sha"][0], one["state"]) for one in forge.statuses] == [
        ("a", "failure"),
        ("a", "failure"),
        ("e", "pending"),
    ]


@dataclass
class Chance:
    """Faults of a forge and crashes of couriers, by one generator that threads share."""

    drawn: random.Random
    lock: threading.Lock

    def fault(self, _: Call) -> Any:
        with self.lock:
            if self.drawn.random() < 0.8:
                return None
            faults = ["close", "lost", (500, {}, "oops"), (502, {}, "bad gateway")]
            return self.drawn.choice(faults)

    def killed(self, *arguments: Any) -> None:
        with self.lock:
            if self.drawn.random() < 0.2:
                raise SystemExit
        _DELIVERED(*arguments)


_DELIVERED = deliveries.delivered


def courier(told: Told) -> None:
    [sink] = told.sinks.sink
    while set(told.states()) != {"delivered"}:
        with contextlib.suppress(SystemExit):
            if not couriers.deliver(told.database, sink, ADDRESS, 5):
                time.sleep(0.05)


@pytest.mark.both_databases(slow="postgresql")
def test_faults_crashes_and_three_couriers_leave_one_comment_that_tells_the_newest(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Chance(random.Random(11), threading.Lock())
    told.forge.fault = chance.fault
    monkeypatch.setattr(deliveries, "delivered", chance.killed)
    monkeypatch.setattr(deliveries, "pause_after", lambda _: timedelta(0))
    monkeypatch.setattr(deliveries, "HELD", timedelta(seconds=1))
    monkeypatch.setattr(forge_comments, "HELD", timedelta(seconds=2))
    monkeypatch.setattr(deliveries, "MOST_ATTEMPTS", 1_000)
    for number in range(8):
        told.start(budget_s=600 + number)
    told.gate.measure(steady())
    couriers.route(told.database, told.sinks)
    threads = [threading.Thread(target=courier, args=(told,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told.rows()) == 16
    [body] = told.bodies()
    assert "No regression in 1 case." in body
    assert "--budget 607s" in body
    forge = told.forge
    assert isinstance(forge, FakeGitHub)
    assert forge.statuses[-1]["state"] == "success"


def test_the_page_of_a_gate_names_its_pull_request(told: Told) -> None:
    client = told.gate.client
    page = client.get(f"/comparisons/{told.start()['id']}").text
    assert "acme/vision#12 (github)" in page
    assert "Pull request" not in client.get(f"/comparisons/{told.gate.start()['id']}").text


def test_a_pull_request_is_well_formed_or_refused(told: Told) -> None:
    wrong = [
        {"repository": "../vision"},
        {"repository": "acme/vision?x=1"},
        {"repository": "a" * 201},
        {"number": 0},
        {"number": 2**31},
        {"head": "main"},
        {"forge": "sourcehut"},
        {"title": "x"},
    ]
    for more in wrong:
        body = asked(pull_request=PULL | more)
        assert told.gate.client.post("/api/v1/comparisons", json=body).status_code == 422, more


def test_only_named_repositories_are_written_to(told: Told) -> None:
    told.start(pull_request=PULL | {"repository": "acme/other"})
    told.start(pull_request=PULL | {"forge": "gitlab"})
    assert told.deliver() == 0
    assert told.forge.calls == []


def test_a_test_reads_the_repositories_and_writes_nothing(told: Told) -> None:
    with told.database.writing() as session:
        deliveries.test(session, "forge", now_of(session))
    told.deliver()
    assert [str(call) for call in told.forge.calls] == ["GET /repos/acme/vision"]
    assert told.states() == ["delivered"]


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    forge = FakeGitLab()
    with serving(forge):
        yield forge


@pytest.mark.both_databases(slow="postgresql")
def test_gitlab_has_a_status_and_one_note(
    gitlab: FakeGitLab, client: TestClient, hand: Hand
) -> None:
    what = {"kind": "gitlab", "api": gitlab.url("/api/v4/"), "repositories": ["acme/ml/vision"]}
    told = telling(gitlab, client, hand, token=gitlab.token, **what)
    request = {"pull_request": PULL | {"forge": "gitlab", "repository": "acme/ml/vision"}}
    gitlab.say(12, f"<!-- throughline gate {ADDRESS} -->\nI am green", author=666)
    lost = iter(["lost"])
    gitlab.fault = lambda call: next(lost, None) if call.path.endswith("notes") else None
    told.start(**request)
    told.start(**request)
    told.deliver()
    assert {row.state for row in told.rows()} == {"delivered", "waiting"}
    told.again()
    told.gate.measure(steady(0.95))
    told.deliver()
    assert {row.error for row in told.rows()} == {""}
    assert [one["state"] for one in gitlab.statuses] == ["running", "failed", "failed"]
    assert gitlab.statuses[-1]["name"] == "throughline/cases"
    strange, body = told.bodies()
    assert "I am green" in strange
    assert "**Regression in 1 of 1 case: " in body


@pytest.mark.both_databases(slow="postgresql")
def test_gerrit_gets_one_review_with_a_vote_a_decision(client: TestClient, hand: Hand) -> None:
    gerrit = FakeGerrit()
    with serving(gerrit):
        what = {"kind": "gerrit", "api": gerrit.url(), "repositories": ["acme/vision"]}
        told = telling(gerrit, client, hand, user="throughline", password=gerrit.password, **what)
        pull = {"pull_request": PULL | {"forge": "gerrit"}}
        lost = iter(["lost"])
        gerrit.fault = lambda call: next(lost, None) if call.method == "POST" else None
        started = told.start(**pull)
        told.deliver()
        told.gate.measure(steady(0.95))
        told.deliver()
        told.again()
        [message] = gerrit.comments.values()
        assert (message["tag"], message["revision"]) == ("autogenerated:throughline", HEAD)
        assert gerrit.votes == [-1]
        assert "Throughline, cases: Regression in 1 of 1 case: " in message["message"]
        assert message["message"].endswith(f"{ADDRESS}/comparisons/{started['id']}")
        told.start(**pull)
        told.gate.measure(steady(1.0, status=Status.OOM))
        told.deliver()
        assert gerrit.votes == [-1, 0], "no data takes the vote back, and is no pass"
        assert told.states() == ["delivered"] * 4


@pytest.mark.both_databases(slow="postgresql")
def test_two_couriers_that_look_at_once_make_one_comment(told: Told) -> None:
    told.start()
    told.start(suite="smoke")
    couriers.route(told.database, told.sinks)
    both_looked = threading.Barrier(2)

    def wait_for_the_other(call: Call) -> None:
        if str(call) == "GET /repos/acme/vision/issues/12/comments":
            with contextlib.suppress(threading.BrokenBarrierError):
                both_looked.wait(1)

    told.forge.fault = wait_for_the_other
    threads = [threading.Thread(target=told.deliver) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told.states() == ["delivered", "delivered"]
    assert len(told.bodies()) == 1


def test_two_running_replicas_tell_a_pull_request_with_one_comment(
    database_url: str, github: FakeGitHub, tmp_path: Path
) -> None:
    path = tmp_path / "outbox.toml"
    path.write_text(
        f"""
address = "{ADDRESS}"
[[sink]]
name = "forge"
kind = "github"
api = "{github.url()}"
private = true
token = "{github.token}"
repositories = ["acme/vision"]
"""
    )
    settings = Settings(database_url=database_url, outbox=path, sweep_s=0.05, confirmations=0)
    settings = settings.model_copy(update={"role": "web"})
    with TestClient(create_app(settings)) as client, TestClient(create_app(settings)):
        hand = Hand(client)
        hand.introduce(device="cpu")
        gate = GateHand(client, hand)
        for suite in ("smoke", "nightly", "smoke"):
            gate.start(suite=suite, pull_request=PULL)
        wait_until(lambda: len(client.get("/api/v1/outbox?state=delivered").json()["items"]) == 3)
    [comment] = github.comments.values()
    assert "**smoke: Measuring" in comment["body"]
    assert "**nightly: Measuring" in comment["body"]
    assert len(github.asked("POST /repos/acme/vision/issues/12/comments")) == 1
