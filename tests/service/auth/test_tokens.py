"""Tokens: what they look like, what is kept of them, and when they are good."""

import stat
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from builders.access import Clock, Doorman, guarded
from builders.served import Served, serving
from builders.service_hand import Hand, result_of
from fastapi import APIRouter
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import select, text
from sqlalchemy.orm import Session
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from service.api.router import Noun
from service.api.routes import ROUTES
from service.app import create_app
from service.auth import access_mode, signing_key, token_format, token_store
from service.auth.authenticate import Buckets
from service.auth.permissions import Undeclared
from service.database.session import now_of
from service.models import Base, TokenRow
from service.settings import Access, Settings

pytestmark = pytest.mark.both_databases

JOBS = "/api/v1/jobs"
BODY = f"tl_admin_0123456789abcdef_{'5a' * 32}"
ALWAYS = f"{BODY}_{zlib.crc32(BODY.encode()):08x}"


@pytest.fixture
def doorman(database_url: str, tmp_path: Path) -> Iterator[Doorman]:
    with guarded(database_url, tmp_path / "state") as found:
        yield found


def test_a_token_reads_back_and_tells_its_kind() -> None:
    made = token_format.new("submit")
    assert token_format.read(made.text) == made
    assert made.text.startswith("tl_submit_")
    assert made.text not in repr(made)


@given(st.data())
def test_every_single_typo_is_told_without_a_database(data: st.DataObject) -> None:
    text = ALWAYS
    assert token_format.read(text).id == "0123456789abcdef"
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("0123456789abcdef_ x").filter(lambda c: c != text[place]))
    with pytest.raises(token_format.Mistyped):
        token_format.read(text[:place] + other + text[place + 1 :])
    with pytest.raises(token_format.Mistyped):
        token_format.read(text[:place])


@given(st.text(max_size=150))
def test_no_other_text_is_a_token(words: str) -> None:
    with pytest.raises(token_format.Mistyped):
        token_format.read(words)


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    made = signing_key.load(tmp_path / "state")
    assert signing_key.load(tmp_path / "state") == made
    assert stat.S_IMODE((tmp_path / "state" / "access.key").stat().st_mode) == 0o600
    assert signing_key.load(tmp_path, "ab" * 32).value == bytes.fromhex("ab" * 32)
    assert made.value.hex() not in repr(made)


def test_without_a_token_the_answer_says_what_to_send(doorman: Doorman) -> None:
    answer = doorman.ask("GET", JOBS)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="throughline"'
    assert "Authorization: Bearer" in answer.json()["detail"]
    page = doorman.ask("GET", "/")
    assert page.status_code == 401
    assert page.headers["WWW-Authenticate"].startswith("Bearer")
    assert doorman.ask("GET", "/api/v1/health").status_code == 200


def test_a_token_counts_in_the_header_alone(doorman: Doorman) -> None:
    good = doorman.token("read")
    assert doorman.ask("GET", JOBS, good).status_code == 200
    assert doorman.client.get(JOBS, headers={"Authorization": f"bearer {good}"}).status_code == 200
    assert doorman.client.get("/", params={"token": good}).status_code == 401
    assert doorman.client.get("/", headers={"Cookie": f"token={good}"}).status_code == 401
    assert doorman.client.get(JOBS, headers={"Authorization": f"Basic {good}"}).status_code == 401
    assert doorman.client.get(JOBS, headers={"Authorization": good}).status_code == 401


def test_a_typo_a_stranger_and_a_code_are_told_apart(doorman: Doorman) -> None:
    good = doorman.token("read")
    assert "checksum" in doorman.ask("GET", JOBS, good[:-1]).json()["detail"]
    stranger = token_format.new("admin").text
    assert "not known here" in doorman.ask("GET", JOBS, stranger).json()["detail"]
    same_id = token_format.renewed("read", token_format.read(good).id).text
    assert "not known here" in doorman.ask("GET", JOBS, same_id).json()["detail"]
    code = token_format.new(token_format.ENROLMENT).text
    assert "throughline worker enroll" in doorman.ask("GET", JOBS, code).json()["detail"]


def test_revoking_and_rotating_count_from_the_next_request_on(doorman: Doorman) -> None:
    admin, other = doorman.token("admin"), doorman.make("read")
    path = f"/api/v1/tokens/{other.id}"
    assert doorman.ask("GET", JOBS, other.token).status_code == 200
    renewed = doorman.ask("POST", f"{path}/rotate", admin).json()
    assert doorman.ask("GET", JOBS, other.token).status_code == 401
    assert doorman.ask("GET", JOBS, renewed["token"]).status_code == 200
    gone = doorman.ask("POST", f"{path}/revoke", admin).json()
    assert (gone["state"], gone["rotated_at"]) == ("revoked", renewed["rotated_at"])
    answer = doorman.ask("GET", JOBS, renewed["token"])
    assert (answer.status_code, "revoked" in answer.json()["detail"]) == (401, True)
    assert doorman.ask("POST", f"{path}/rotate", admin).status_code == 409
    again = doorman.ask("POST", f"{path}/revoke", admin).json()
    assert again["revoked_at"] == gone["revoked_at"]


def test_an_expired_token_says_so(doorman: Doorman) -> None:
    answer = doorman.ask("GET", JOBS, doorman.expired())
    assert (answer.status_code, "expired" in answer.json()["detail"]) == (401, True)


def test_a_token_of_another_servers_key_says_so(
    doorman: Doorman, database_url: str, tmp_path: Path
) -> None:
    good = doorman.token("admin")
    with guarded(database_url, tmp_path / "elsewhere") as other:
        assert "another server key" in other.ask("GET", JOBS, good).json()["detail"]


def test_what_is_stored_holds_nothing_that_opens(doorman: Doorman) -> None:
    made = doorman.make("admin")
    answer = doorman.ask(
        "POST", "/api/v1/tokens", made.token, json={"kind": "read", "name": "wall"}
    )
    assert answer.status_code == 201
    secrets = [shown.split("_")[3] for shown in (made.token, answer.json()["token"])]
    stored = []
    with doorman.database.reading() as session:
        for table in Base.metadata.sorted_tables:
            stored += map(str, session.execute(text(f"SELECT * FROM {table.name}")).all())
    assert len(stored) >= 4
    assert not [row for row in stored if any(secret in row for secret in secrets)]
    listed = doorman.ask("GET", "/api/v1/tokens", made.token).text
    assert "digest" not in listed
    assert not any(secret in listed for secret in secrets)


def test_use_is_noted_at_most_once_a_minute(doorman: Doorman) -> None:
    made = doorman.make("admin")

    def used() -> Any:
        listed = doorman.ask("GET", "/api/v1/tokens", made.token).json()["items"]
        return next(one["last_used_at"] for one in listed if one["id"] == made.id)

    first = used()
    assert first is not None
    assert used() == first
    doorman.authenticator._touched.clear()
    assert used() == first  # the database knows better than this replica


def test_the_uses_of_all_tokens_are_written_together(doorman: Doorman) -> None:
    first, second = doorman.make("admin", "first"), doorman.make("read", "second")

    def noted() -> set[str]:
        with doorman.database.reading() as session:
            used = select(TokenRow.id).where(TokenRow.last_used_at.is_not(None))
            return set(session.scalars(used))

    doorman.ask("GET", "/api/v1/jobs", first.token)
    doorman.ask("GET", "/api/v1/jobs", second.token)
    assert noted() == {first.id}  # the second came within the same second
    doorman.authenticator._wrote_s -= 1.0
    doorman.ask("GET", "/api/v1/jobs", first.token)
    assert noted() == {first.id, second.id}


def test_each_kind_may_do_its_part(doorman: Doorman) -> None:
    read, submit = doorman.token("read"), doorman.token("submit")
    body = {"suite": "smoke", "revision": "r1"}
    refused = doorman.ask("POST", "/api/v1/submissions", read, json=body)
    assert refused.status_code == 403
    assert refused.json()["detail"] == (
        "A token of the kind read may not do this; it takes one of the kind submit or admin."
    )
    assert doorman.ask("POST", "/api/v1/submissions", submit, json=body).status_code == 201
    assert doorman.ask("GET", "/api/v1/tokens", submit).status_code == 403


def test_whoever_is_refused_is_refused_before_the_body_is_looked_at(doorman: Doorman) -> None:
    assert doorman.ask("POST", "/api/v1/submissions", json={"no": "sense"}).status_code == 401
    read = doorman.token("read")
    assert doorman.ask("POST", "/api/v1/submissions", read, json={"no": "sense"}).status_code == 403


def test_a_worker_acts_under_its_own_name_alone(doorman: Doorman) -> None:
    mine = doorman.token("worker", "w1")
    assert doorman.ask("PUT", "/api/v1/workers/w1", mine, json={"name": "w1"}).status_code == 200
    refused = doorman.ask("PUT", "/api/v1/workers/w2", mine, json={"name": "w2"})
    assert (refused.status_code, "the worker w1" in refused.json()["detail"]) == (403, True)
    claim = {"worker": "w2", "claim_id": "a" * 32}
    assert doorman.ask("POST", "/api/v1/leases", mine, json=claim).status_code == 403
    claim["worker"] = "w1"
    assert doorman.ask("POST", "/api/v1/leases", mine, json=claim).status_code == 204


def test_a_result_from_another_worker_is_not_even_kept(doorman: Doorman) -> None:
    admin, mine = doorman.token("admin"), doorman.token("worker", "w1")
    doorman.client.headers["Authorization"] = f"Bearer {admin}"
    hand = Hand(doorman.client, "w2")
    hand.introduce(device="cpu")
    body = {"case": {"workload": "unet"}, "revision": "r1"}
    assert doorman.client.post(JOBS, json=body).status_code == 201
    lease = hand.must_claim()
    stolen = {"Lease-Secret": lease.secret}
    path = f"{JOBS}/{lease.job_id}/attempts/{lease.attempt}/result"
    told = result_of(lease).model_dump(mode="json")
    assert doorman.ask("POST", path, mine, json=told, headers=stolen).status_code == 409
    assert doorman.client.get("/api/v1/results").json()["items"] == []
    assert hand.post(lease, result_of(lease)).status_code == 201


def test_what_is_done_is_written_down_with_who_did_it(doorman: Doorman) -> None:
    admin, ci = doorman.make("admin", "ann"), doorman.make("submit", "ci")
    body = {"suite": "smoke", "revision": "r1"}
    once = {"Idempotency-Key": "night-7"}
    for _ in range(2):  # the second finds what the first made, and is no change
        answer = doorman.ask("POST", "/api/v1/submissions", ci.token, json=body, headers=once)
        made = answer.json()
    assert answer.status_code == 200
    doorman.ask("POST", "/api/v1/submissions", ci.token, json={"suite": "none", "revision": "r"})
    doorman.ask("POST", f"/api/v1/tokens/{ci.id}/revoke", admin.token)
    last, first = doorman.ask("GET", "/api/v1/audit", admin.token).json()["items"]
    assert first["actor"] == "submit ci"
    assert first["token_id"] == ci.id
    assert first["action"] == "POST /api/v1/submissions"
    assert first["object"] == f"/api/v1/submissions -> {made['id']}"
    assert (last["actor"], last["object"]) == ("admin ann", f"/api/v1/tokens/{ci.id}/revoke")
    page = doorman.ask("GET", "/api/v1/audit?limit=1", admin.token).json()
    rest = doorman.ask("GET", f"/api/v1/audit?cursor={page['next_cursor']}", admin.token).json()
    assert [page["items"], rest["items"]] == [[last], [first]]


@pytest.mark.parametrize("change", ["UPDATE %s SET actor = ''", "DELETE FROM %s"])
def test_the_audit_log_only_grows(doorman: Doorman, change: str) -> None:
    wanted = {"kind": "read", "name": "x"}
    doorman.ask("POST", "/api/v1/tokens", doorman.token("admin"), json=wanted)
    with pytest.raises(Exception, match="only grows"), doorman.database.writing() as session:
        session.execute(text(change % "audit_events"))


def test_the_first_administrator_closes_reading_for_good(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.auth.authenticate._LOOK_S", 0.0)
    with guarded(database_url, tmp_path, access=Access.AUTO) as doorman:
        owner = doorman.local()
        assert doorman.ask("GET", JOBS).status_code == 200
        doorman.make("read")
        assert doorman.ask("GET", JOBS).status_code == 200
        body = {"kind": "admin", "name": "me"}
        made = doorman.ask("POST", "/api/v1/tokens", owner, json=body).json()
        assert doorman.ask("GET", JOBS).status_code == 401
        assert doorman.ask("GET", JOBS, owner).status_code == 200
        assert doorman.ask("GET", JOBS, made["token"]).status_code == 200
        doorman.ask("POST", f"/api/v1/tokens/{made['id']}/revoke", made["token"])
        assert doorman.ask("GET", JOBS).status_code == 401, "it does not open again by itself"
    with guarded(database_url, tmp_path, access=Access.AUTO) as doorman:
        assert doorman.ask("GET", JOBS).status_code == 401, "nor after a restart"
    with guarded(database_url, tmp_path, access=Access.OPEN) as doorman:
        assert doorman.ask("GET", JOBS).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("127.0.0.1:8765", 200), ("[::1]:8765", 200), ("localhost:8765", 200)),
        *(("service:8765", 200), ("a.localhost", 200), ("10.1.2.3", 200)),
        *(("evil.example:8765", 403), ("127.0.0.1.evil.example", 403), ("127.0.0.1.", 403)),
        ("[::1", 403),
    ],
)
def test_who_may_read_without_a_token_asks_under_its_machines_own_names_only(
    sqlite_url: str, tmp_path: Path, host: str, status: int
) -> None:
    with guarded(sqlite_url, tmp_path, access=Access.AUTO) as doorman:
        assert doorman.ask("GET", JOBS, headers={"Host": host}).status_code == status
    with guarded(sqlite_url, tmp_path, access=Access.TOKENS) as doorman:
        good = doorman.token("read")
        assert doorman.ask("GET", JOBS, good, headers={"Host": "wall.example"}).status_code == 200


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({}, 404),  # a program's: the command line, a script
        ({"Origin": "http://127.0.0.1:8765"}, 404),
        ({"Sec-Fetch-Site": "same-origin"}, 404),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
    ],
)
def test_no_page_of_another_site_acts_where_no_token_is_asked_for(
    sqlite_url: str, tmp_path: Path, told: dict[str, str], status: int
) -> None:
    """A form without fields has no body whose type could give it away."""
    sent = {"Host": "127.0.0.1:8765", **told}
    with guarded(sqlite_url, tmp_path, access=Access.OPEN) as doorman:
        for call in ("schedules/none/fire", f"jobs/{'0' * 32}/cancel", f"tokens/{'0' * 16}/revoke"):
            answer = doorman.ask("POST", f"/api/v1/{call}", headers=sent)
            assert answer.status_code == status, call
        assert doorman.ask("GET", JOBS, headers=sent).status_code == 200


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *(("127.0.0.1", True), ("::1", True), ("[::1]", True), ("localhost", True)),
        *(("127.9.9.9", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False)),
        *(("service.example", False), ("", False), ("127.0.0.1.example", False)),
    ],
)
def test_only_the_loopback_is_this_machine_alone(host: str, local: bool) -> None:
    assert access_mode.is_loopback(host) is local


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time that limits go by."""
    stopped = Clock()
    monkeypatch.setattr("service.auth.authenticate.time", stopped)
    return stopped


def test_failures_from_one_address_are_limited_and_a_good_token_passes(
    sqlite_url: str, tmp_path: Path, clock: Clock
) -> None:
    with guarded(sqlite_url, tmp_path, failures_per_min=3) as doorman:
        good = doorman.token("read")
        assert doorman.ask("GET", JOBS, good).status_code == 200
        answers = [doorman.ask("GET", JOBS, token_format.new("admin").text) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
        assert answers[-1].headers["Retry-After"] == "20"
        assert doorman.ask("GET", JOBS).status_code == 429
        assert doorman.ask("GET", JOBS, good).status_code == 200
        clock.now_s += 20
        assert doorman.ask("GET", JOBS).status_code == 401
        assert doorman.ask("GET", JOBS).status_code == 429


def test_a_good_token_that_nobody_has_seen_passes_beside_neighbours_that_fail(
    sqlite_url: str, tmp_path: Path, clock: Clock
) -> None:
    with guarded(sqlite_url, tmp_path, failures_per_min=3) as doorman:
        good = [doorman.token("read") for _ in range(10)]
        for _ in range(10):
            doorman.ask("GET", JOBS, token_format.new("read").text)
        assert [doorman.ask("GET", JOBS, each).status_code for each in good] == [200] * 10
        same_id = token_format.renewed("read", token_format.read(good[0]).id).text
        assert doorman.ask("GET", JOBS, same_id).status_code == 429
        later = doorman.token("read")
        clock.now_s += 1  # as long as what is known of tokens holds
        assert doorman.ask("GET", JOBS, later).status_code == 200


def test_tokens_that_are_made_up_cost_the_database_one_question_a_second(
    sqlite_url: str, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(sqlite_url, tmp_path, failures_per_min=3) as doorman:
        for _ in range(3):
            doorman.ask("GET", JOBS, token_format.new("read").text)
        asked: list[object] = []
        run = doorman.database.run

        async def count(work: Callable[[Session], object], *, write: bool) -> object:
            asked.append(work)
            return await run(work, write=write)

        monkeypatch.setattr(doorman.database, "run", count)
        for _ in range(20):
            assert doorman.ask("GET", JOBS, token_format.new("read").text).status_code == 429
        assert len(asked) == 1


def test_a_good_token_is_remembered_and_costs_the_database_nothing(
    sqlite_url: str, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(sqlite_url, tmp_path) as doorman:
        good = doorman.token("read")
        assert doorman.ask("GET", JOBS, good).status_code == 200

        async def refuse(*_: object, **__: object) -> None:
            raise AssertionError("the database was asked")

        monkeypatch.setattr(doorman.database, "run", refuse)
        assert doorman.ask("GET", JOBS, good).status_code == 200


@pytest.mark.parametrize("end", ["revoke", "rotate"])
def test_a_token_that_was_ended_elsewhere_is_refused_within_a_second(
    sqlite_url: str, tmp_path: Path, clock: Clock, end: str
) -> None:
    with guarded(sqlite_url, tmp_path) as doorman:
        made, other = doorman.make("read"), doorman.make("read")
        for token in (made, other):
            assert doorman.ask("GET", JOBS, token.token).status_code == 200
        with doorman.database.writing() as session:
            if end == "revoke":
                token_store.revoke(session, made.id, now_of(session))
            else:
                token_store.rotate(session, doorman.authenticator.key, made.id, now_of(session))
        clock.now_s += 1
        assert doorman.ask("GET", JOBS, made.token).status_code == 401
        assert doorman.ask("GET", JOBS, other.token).status_code == 200


def test_a_remembered_token_ends_when_it_expires(
    sqlite_url: str, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(sqlite_url, tmp_path) as doorman:
        brief = doorman.make("read", lasts_s=60.0).token
        assert doorman.ask("GET", JOBS, brief).status_code == 200
        later = lambda session: now_of(session) + timedelta(seconds=61)  # noqa: E731
        monkeypatch.setattr("service.auth.authenticate.now_of", later)
        clock.now_s += 1
        assert doorman.ask("GET", JOBS, brief).status_code == 401


def test_a_token_that_has_ended_counts_for_itself_and_not_for_its_neighbours(
    sqlite_url: str, tmp_path: Path, clock: Clock
) -> None:
    with guarded(sqlite_url, tmp_path, failures_per_min=3) as doorman:
        gone, expired = doorman.revoked("read"), doorman.expired("read")
        answers = [doorman.ask("GET", JOBS, gone) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
        assert "This token has ended" in answers[-1].json()["detail"]
        assert doorman.ask("GET", JOBS, expired).status_code == 401
        assert doorman.ask("GET", JOBS).status_code == 401


def failing(served: Served, forwarded: str) -> int:
    """Ask without a token, and say for whom."""
    url = f"http://127.0.0.1:{served.port}{JOBS}"
    return httpx2.get(url, headers={"X-Forwarded-For": forwarded}).status_code


def test_whoever_says_that_it_forwards_is_believed_if_it_was_named(
    sqlite_url: str, tmp_path: Path
) -> None:
    asking = {"access": Access.TOKENS, "state_dir": tmp_path, "failures_per_min": 3}
    with serving(sqlite_url, **asking) as served:
        assert [failing(served, f"10.0.0.{n}") for n in range(5)] == [401, 401, 401, 429, 429]
    with serving(sqlite_url, **asking, proxies="10.9.0.0/16, 127.0.0.1") as served:
        assert [failing(served, f"10.0.0.{n}") for n in range(5)] == [401] * 5
        # A proxy adds whom it saw behind what that one said.
        told = [f"10.1.0.{n}, 192.0.2.1, 10.9.0.7" for n in range(5)]
        assert [failing(served, each) for each in told] == [401, 401, 401, 429, 429]


@pytest.mark.parametrize("told", ["*", "proxy.example", "10.0.0.1/8", "127.0.0.1,,x"])
def test_proxies_are_named_by_address(told: str) -> None:
    with pytest.raises(ValidationError, match="addresses or networks"):
        Settings(proxies=told)


def test_a_token_that_asks_too_often_is_told_how_long_to_wait(
    sqlite_url: str, tmp_path: Path, clock: Clock
) -> None:
    with guarded(sqlite_url, tmp_path, requests_per_s=0.5) as doorman:
        busy, other = doorman.token("read"), doorman.token("read")
        assert doorman.ask("GET", JOBS, busy).status_code == 200
        answer = doorman.ask("GET", JOBS, busy)
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "2")
        assert doorman.ask("GET", JOBS, other).status_code == 200
        clock.now_s += 2
        assert doorman.ask("GET", JOBS, busy).status_code == 200


def test_a_bucket_fills_evenly_and_never_beyond_its_burst() -> None:
    bucket = Buckets(per_s=2.0, burst=3.0)
    for _ in range(3):
        assert bucket.wait_s("a", 0.0) == 0.0
        bucket.take("a", 0.0)
    assert bucket.wait_s("a", 0.0) == pytest.approx(0.5)
    assert bucket.wait_s("b", 0.0) == 0.0
    assert bucket.wait_s("a", 0.5) == 0.0
    for _ in range(3):
        bucket.take("a", 100.0)
    assert bucket.wait_s("a", 100.0) == pytest.approx(0.5)
    assert Buckets(0.0, 0.0).wait_s("a", 0.0) == 0.0


def test_a_route_that_declares_no_permission_cannot_be_made() -> None:
    def backdoor() -> None: ...

    with pytest.raises(Undeclared, match="backdoor does not say who may call it"):
        Noun("/backdoor", "backdoor").add_api_route("", backdoor)


def _included() -> BaseRoute:
    inner, outer = APIRouter(), APIRouter()
    inner.add_api_route("/api/v1/backdoor", lambda: None)
    outer.include_router(inner)
    return outer.routes[-1]


@pytest.mark.parametrize(
    "backdoor",
    [
        APIRoute("/api/v1/backdoor", lambda: None),
        Route("/api/v1/backdoor", lambda _: Response()),
        _included(),
    ],
    ids=["none", "none of the API", "in another router"],
)
def test_a_route_without_a_guard_does_not_start(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, backdoor: BaseRoute
) -> None:
    monkeypatch.setattr("service.app.ROUTES", (*ROUTES, backdoor))
    with pytest.raises(Undeclared, match="/api/v1/backdoor has no guard"):
        create_app(Settings(database_url=sqlite_url, background=False))


def test_no_log_line_carries_a_token(doorman: Doorman, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for shown in (doorman.token("admin"), doorman.revoked(), doorman.token("read")[:-1]):
        doorman.ask("POST", "/api/v1/tokens", shown, json={"kind": "read", "name": "x"})
        assert shown.split("_")[3] not in caplog.text
