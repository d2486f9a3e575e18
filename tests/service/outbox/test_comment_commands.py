"""Comments on pull requests give commands, to those who may write and once."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.forges import BASE, HEAD, FakeGitHub, FakeGitLab, serving
from builders.gate_hand import GateHand, measured, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from pydantic import SecretStr

from benchmarks.contracts import Lease, Result
from service.app import create_app
from service.comparisons import comment_commands
from service.database.session import Database
from service.outbox import couriers
from service.outbox.sinks.github import GitHub
from service.settings import Settings

pytestmark = pytest.mark.both_databases

HOOK = "/api/v1/forges/hub/hook"
SECRET = b"it is a secret"
SINKS = """
address = "https://perf.example.com"
[[sink]]
name = "hub"
kind = "github"
api = "{hub}"
private = true
token = "{hub_token}"
repositories = ["acme/vision"]
hook_secret = "it is a secret"
[[sink]]
name = "lab"
kind = "gitlab"
api = "{lab}"
private = true
token = "{lab_token}"
repositories = ["acme/ml/vision"]
hook_secret = "it is a secret"
[[sink]]
name = "mute"
kind = "github"
token = "t"
repositories = ["acme/mute"]
"""


@pytest.fixture
def hub() -> Iterator[FakeGitHub]:
    forge = FakeGitHub()
    with serving(forge):
        yield forge


@pytest.fixture
def lab() -> Iterator[FakeGitLab]:
    forge = FakeGitLab()
    with serving(forge):
        yield forge


@pytest.fixture
def client(
    database_url: str, tmp_path: Path, hub: FakeGitHub, lab: FakeGitLab
) -> Iterator[TestClient]:
    path = tmp_path / "outbox.toml"
    named = {"hub": hub.url(), "hub_token": hub.token}
    named |= {"lab": lab.url("/api/v4"), "lab_token": lab.token}
    path.write_text(SINKS.format(**named))
    settings = Settings(database_url=database_url, outbox=path, background=False)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def gate(client: TestClient) -> GateHand:
    worker = Hand(client)
    worker.introduce(device="cpu")
    return GateHand(client, worker)


def spoken(body: str, author: str = "ann", number: int = 900, **more: Any) -> dict[str, Any]:
    comment = {"id": number, "user": {"login": author, "type": "User"}, "body": body}
    issue = {"number": 12, "pull_request": {"url": "..."}}
    repository = {"full_name": "acme/vision"}
    told = {"action": "created", "issue": issue, "comment": comment, "repository": repository}
    return told | more


def send(
    client: TestClient,
    document: Any,
    event: str = "issue_comment",
    key: bytes = SECRET,
    path: str = HOOK,
) -> Any:
    body = json.dumps(document).encode()
    signed = "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": event, "X-Hub-Signature-256": signed}
    headers["Content-Type"] = "application/json"
    return client.post(path, content=body, headers=headers)


def deliver(client: TestClient) -> None:
    app: Any = client.app
    database: Database = app.state.database
    couriers.route(database, app.state.sinks)
    for sink in app.state.sinks.sink:
        while couriers.deliver(database, sink, app.state.sinks.address, 5):
            pass


def gates(client: TestClient) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = client.get("/api/v1/comparisons").json()["items"]
    return listed


def test_a_gate_is_asked_for_measured_and_told(
    client: TestClient, gate: GateHand, hub: FakeGitHub
) -> None:
    answer = send(client, spoken("Looks slow.\r\n/throughline gate smoke\r\n"))
    assert (answer.status_code, answer.json()) == (202, {"obeyed": True})
    [started] = gates(client)
    assert (started["baseline"], started["contender"], started["suite"], started["source"]) == (
        BASE,
        HEAD,
        "smoke",
        "comment",
    )
    deliver(client)
    reply, comment = hub.comments.values()
    said = f"[The gate](https://perf.example.com/comparisons/{started['id']}) has started."
    assert reply["body"].startswith(f"<!-- throughline command 900 -->\n{said}")
    assert comment["body"].startswith("<!-- throughline gate ")
    assert hub.statuses[-1]["state"] == "pending"


def test_a_hook_that_comes_twice_is_obeyed_once(
    client: TestClient, gate: GateHand, hub: FakeGitHub
) -> None:
    for _ in range(2):
        assert send(client, spoken("/throughline gate")).status_code == 202
    deliver(client)
    assert len(gates(client)) == 1
    assert len(hub.comments) == 2


@pytest.mark.parametrize("author", ["bob", "mallory"])
def test_who_may_not_write_is_not_obeyed_and_not_answered(
    client: TestClient, gate: GateHand, hub: FakeGitHub, author: str
) -> None:
    answer = send(client, spoken("/throughline gate", author))
    assert (answer.status_code, answer.json()) == (202, {"obeyed": False})
    deliver(client)
    assert gates(client) == []
    assert len(hub.comments) == 0
    hub.permissions[author] = "admin"
    assert send(client, spoken("/throughline gate", author)).json() == {"obeyed": True}


@pytest.mark.parametrize(
    "document",
    [
        spoken("What does /throughline gate do?"),
        spoken("/throughlines gate"),
        spoken("/throughline gate", action="edited"),
        spoken("/throughline gate", issue={"number": 12}),
        spoken("/throughline gate", repository={"full_name": "acme/other"}),
        spoken("/throughline gate", issue={"number": -3, "pull_request": {}}),
        spoken("/throughline gate", comment={"id": "x", "user": {}, "body": None}),
        {"zen": "Keep it logically awesome."},
        [1],
        {},
    ],
)
def test_what_is_no_command_is_ignored(
    client: TestClient, gate: GateHand, hub: FakeGitHub, document: Any
) -> None:
    answer = send(client, document)
    assert (answer.status_code, answer.json()) == (202, {"obeyed": False})
    assert gates(client) == []


def test_its_own_answers_and_other_bots_are_ignored(client: TestClient, gate: GateHand) -> None:
    bot = {"id": 1, "user": {"login": "x[bot]", "type": "Bot"}, "body": "/throughline gate"}
    assert send(client, spoken("", comment=bot)).json() == {"obeyed": False}
    assert comment_commands.read(comment_commands.HELP) is None
    assert send(client, spoken("x"), event="ping").json() == {"obeyed": False}


def test_a_hook_has_to_be_signed(client: TestClient, gate: GateHand) -> None:
    said = spoken("/throughline gate")
    assert send(client, said, key=b"another").status_code == 403
    assert client.post(HOOK, json=said).status_code == 403
    assert client.post(HOOK, json=said, headers={"X-Hub-Signature-256": b"\xe9"}).status_code == 403
    assert send(client, said, path="/api/v1/forges/mute/hook", key=b"").status_code == 404
    assert send(client, said, path="/api/v1/forges/none/hook").status_code == 404
    assert gates(client) == []


def test_a_long_description_fits_and_a_huge_hook_is_refused(
    client: TestClient, gate: GateHand
) -> None:
    issue = {"number": 12, "pull_request": {}, "body": "x" * 200_000}
    assert send(client, spoken("/throughline help", issue=issue)).status_code == 202
    issue["body"] = "x" * 2**20
    assert send(client, spoken("/throughline help", issue=issue)).status_code == 413


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("/throughline help", "| comment | does |"),
        ("/throughline", "| comment | does |"),
        ("/throughline gate --worker w1", "| comment | does |"),
        ("/throughline gate SMOKE;rm", "| comment | does |"),
        ("/throughline benchmark", "| comment | does |"),
        ("/throughline gate no-such-suite", "Not started: "),
        ("/throughline rerun", "There is no gate of this pull request yet"),
        ("/throughline bisect", "There is no gate of this pull request yet"),
    ],
)
def test_each_command_is_answered(
    client: TestClient, gate: GateHand, hub: FakeGitHub, comment: str, said: str
) -> None:
    assert send(client, spoken(comment)).json() == {"obeyed": True}
    deliver(client)
    [reply] = hub.comments.values()
    assert said in reply["body"]
    assert gates(client) == []


def slower(lease: Lease) -> Result:
    return measured(lease, 95.0 if lease.spec.revision == HEAD else 100.0)


def test_a_gate_is_measured_again_and_its_regression_bisected(
    client: TestClient, gate: GateHand, hub: FakeGitHub
) -> None:
    hand = gate.worker
    hand.introduce(revisions=[BASE, HEAD], device="cpu")
    pull = {"forge": "github", "repository": "acme/vision", "number": 12, "head": HEAD}
    first = gate.start(baseline=BASE, contender=HEAD, pull_request=pull)
    gate.measure(slower)
    assert gate.read(first["id"])["decision"]["outcome"] == "regression"
    send(client, spoken("/throughline rerun", number=901))
    again, _ = gates(client)
    assert (again["baseline"], again["contender"], again["source"]) == (BASE, HEAD, "comment")
    gate.measure(slower)
    send(client, spoken("/throughline bisect", number=902))
    deliver(client)
    bodies = [one["body"] for one in hub.comments.values()]
    assert sum(body.startswith("<!-- throughline gate ") for body in bodies) == 1
    [bisect] = [body for body in bodies if "command 902" in body]
    assert "Not started: No worker that is here builds both" in bisect


def test_without_a_slowdown_there_is_nothing_to_bisect(
    client: TestClient, gate: GateHand, hub: FakeGitHub
) -> None:
    pull = {"forge": "github", "repository": "acme/vision", "number": 12, "head": HEAD}
    gate.start(pull_request=pull)
    gate.measure(steady())
    send(client, spoken("/throughline bisect"))
    deliver(client)
    assert any("nothing to bisect" in one["body"] for one in hub.comments.values())


def test_a_forge_that_does_not_answer_in_time_costs_nothing(
    client: TestClient, gate: GateHand, hub: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.forges._ASK_S", 0.2)
    faults = iter(["hang"])
    hub.fault = lambda _: next(faults, None)
    assert send(client, spoken("/throughline gate")).status_code == 503
    assert gates(client) == []
    assert send(client, spoken("/throughline gate")).status_code == 202
    assert len(gates(client)) == 1


def noted(note: str, author: int = 1, token: str = "it is a secret") -> dict[str, Any]:
    document = {
        "object_kind": "note",
        "user": {"id": author},
        "project": {"path_with_namespace": "acme/ml/vision"},
        "merge_request": {"iid": 3},
        "object_attributes": {"id": 44, "note": note, "action": "create"},
    }
    return {"json": document, "headers": {"X-Gitlab-Token": token}}


def test_gitlab_gives_commands_too(client: TestClient, gate: GateHand, lab: FakeGitLab) -> None:
    hook = "/api/v1/forges/lab/hook"
    assert client.post(hook, **noted("/throughline gate", token="no")).status_code == 403
    for stranger in (2, 3):
        answer = client.post(hook, **noted("/throughline gate", author=stranger))
        assert answer.json() == {"obeyed": False}
    assert client.post(hook, **noted("/throughline gate")).json() == {"obeyed": True}
    [started] = gates(client)
    assert (started["baseline"], started["contender"]) == (BASE, HEAD)
    deliver(client)
    assert len(lab.comments) == 2
    assert lab.statuses[-1]["state"] == "running"


def test_a_signature_is_githubs_own() -> None:
    """The example of docs.github.com, "Validating webhook deliveries"."""
    sink = GitHub(name="hub", kind="github", token=SecretStr("t"), repositories=("acme/vision",))
    given = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"x-hub-signature-256": given}
    pair = sink.signatures(b"It's a Secret to Everybody", headers, b"Hello, World!")
    assert pair == (given, given)
