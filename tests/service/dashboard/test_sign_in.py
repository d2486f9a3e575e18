"""Signing in on the dashboard: a cookie that no script reads, and changes that prove their page."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builders.access import Doorman, guarded
from fastapi.testclient import TestClient
from sqlalchemy import select, text, update

from service.auth import local_token
from service.auth.sessions import LASTS
from service.database.session import now_of
from service.models import BrowserSession, EnrolmentRow, TokenRow

pytestmark = pytest.mark.both_databases

HERE = {"Sec-Fetch-Site": "same-origin"}
SUBMISSION = {"suite": "smoke", "revision": "r1"}


@pytest.fixture
def doorman(database_url: str, tmp_path: Path) -> Iterator[Doorman]:
    with guarded(database_url, tmp_path / "state") as found:
        yield found


def sign_in(client: TestClient, token: str, to: str = "/jobs", **headers: str) -> Any:
    return client.post(
        "/sign-in",
        data={"token": token, "to": to},
        headers=HERE | headers,
        follow_redirects=False,
    )


def proof(client: TestClient) -> str:
    found = re.search(r'name="csrf-token" content="([0-9a-f]{64})"', client.get("/jobs").text)
    assert found is not None
    return found[1]


def test_a_page_asks_for_a_token_and_goes_on_where_that_was(doorman: Doorman) -> None:
    asked = doorman.client.get("/jobs?state=queued")
    assert asked.status_code == 401
    assert 'action="/sign-in"' in asked.text
    assert 'name="to" value="/jobs?state=queued"' in asked.text
    assert 'role="alert"' not in asked.text
    answer = sign_in(doorman.client, doorman.token("read"), "/jobs?state=queued")
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?state=queued")
    assert doorman.client.get("/jobs").status_code == 200


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(doorman: Doorman) -> None:
    token = doorman.token("read")
    told = sign_in(doorman.client, token).headers["set-cookie"]
    assert told.startswith("throughline=")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(told.split("; "))
    secure = TestClient(doorman.client.app, base_url="https://testserver")
    told = sign_in(secure, token).headers["set-cookie"]
    assert told.startswith("__Host-throughline=")
    assert {"HttpOnly", "SameSite=lax", "Path=/", "Secure"} <= set(told.split("; "))
    assert "Domain" not in told
    assert token not in told
    with doorman.database.reading() as session:
        kept = session.scalars(select(BrowserSession.id)).all()
    value = told.partition("=")[2].partition(";")[0]
    assert len(kept) == 2
    assert value not in kept


def test_two_services_of_one_machine_keep_a_session_each(doorman: Doorman) -> None:
    token, names = doorman.token("read"), []
    for port in (8765, 8766):
        browser = TestClient(doorman.client.app, base_url=f"http://127.0.0.1:{port}")
        names.append(sign_in(browser, token).headers["set-cookie"].partition("=")[0])
        assert browser.get("/jobs").status_code == 200
    assert names == ["throughline-8765", "throughline-8766"]


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil", "evil", "/\t/"]
)
def test_signing_in_leads_to_no_other_site(doorman: Doorman, to: str) -> None:
    assert sign_in(doorman.client, doorman.token("read"), to).headers["location"] == "/"


def test_a_bad_token_is_told_on_the_page(doorman: Doorman) -> None:
    for bad in (doorman.revoked("read"), doorman.token("read")[:-1], doorman.token("worker", "w1")):
        answer = sign_in(doorman.client, bad)
        assert answer.status_code == 401
        assert 'role="alert"' in answer.text
        assert "set-cookie" not in answer.headers
        assert bad not in answer.text


def test_a_change_needs_the_pages_own_proof(doorman: Doorman) -> None:
    client = doorman.client
    sign_in(client, doorman.token("submit"))
    shown = {"X-CSRF-Token": proof(client)}

    def change(**headers: str) -> int:
        path = "/api/v1/submissions"
        return client.post(path, json=SUBMISSION, headers=headers).status_code

    assert change(**shown, **HERE) == 201
    assert change(**shown, Origin="http://testserver") == 201
    assert change(**HERE) == 403
    assert change(**HERE, **{"X-CSRF-Token": "0" * 64}) == 403
    assert change(**shown) == 403
    for origin in ("http://evil.example", "null", "http://[", "http://testserver.evil.example"):
        assert change(**shown, Origin=origin) == 403
    for site in ("cross-site", "same-site", "none"):
        assert change(**shown, **{"Sec-Fetch-Site": site}) == 403
    other = TestClient(client.app)
    sign_in(other, doorman.token("admin"))
    assert change(**HERE, **{"X-CSRF-Token": proof(other)}) == 403


def test_a_session_may_do_what_its_token_may(doorman: Doorman) -> None:
    client = doorman.client
    sign_in(client, doorman.token("read"))
    headers = HERE | {"X-CSRF-Token": proof(client)}
    assert client.get("/api/v1/jobs").status_code == 200
    answer = client.post("/api/v1/submissions", json=SUBMISSION, headers=headers)
    assert (answer.status_code, "submit or admin" in answer.json()["detail"]) == (403, True)
    assert client.get("/api/v1/audit").status_code == 403


def test_the_use_of_a_session_is_a_use_of_its_token(doorman: Doorman) -> None:
    made = doorman.make("admin")
    assert sign_in(doorman.client, made.token).status_code == 303
    long_ago = made.created_at - timedelta(minutes=10)
    with doorman.database.writing() as session:
        session.execute(update(TokenRow).values(last_used_at=long_ago))
    doorman.authenticator._touched[made.id] -= 600.0  # ten minutes later
    doorman.authenticator._wrote_s -= 600.0
    assert doorman.client.get("/jobs").status_code == 200
    with doorman.database.reading() as session:
        noted = session.get_one(TokenRow, made.id).last_used_at
    assert noted is not None
    assert noted >= made.created_at


def test_a_session_ends_with_its_token_and_its_time(doorman: Doorman) -> None:
    client, admin = doorman.client, doorman.token("admin")
    for end in ("rotate", "revoke"):
        made = doorman.make("read")
        sign_in(client, made.token)
        assert client.get("/jobs").status_code == 200
        doorman.ask("POST", f"/api/v1/tokens/{made.id}/{end}", admin)
        ended = client.get("/jobs")
        assert (ended.status_code, "sign in again" in ended.text) == (401, True)
    sign_in(client, admin)
    with doorman.database.writing() as session:
        past = now_of(session) - timedelta(seconds=1)
        session.execute(update(BrowserSession).values(expires_at=past))
    assert client.get("/jobs").status_code == 401
    assert timedelta(hours=24) >= LASTS


def test_signing_out_ends_the_session_for_good(doorman: Doorman) -> None:
    client = doorman.client
    sign_in(client, doorman.token("read"))
    cookie = client.cookies["throughline"]
    shown = {"proof": proof(client)}
    assert client.post("/sign-out", data={"proof": "0" * 64}, headers=HERE).status_code == 403
    assert client.post("/sign-out", data=shown).status_code == 403
    left = client.post("/sign-out", data=shown, headers=HERE, follow_redirects=False)
    assert (left.status_code, left.headers["location"]) == (303, "/sign-in")
    assert "throughline" not in client.cookies
    assert client.get("/jobs", headers={"Cookie": f"throughline={cookie}"}).status_code == 401


def test_another_site_can_sign_nobody_in(doorman: Doorman) -> None:
    token = doorman.token("read")
    assert sign_in(doorman.client, token, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert doorman.client.get("/jobs").status_code == 401


def test_where_no_token_is_asked_for_nobody_signs_in(sqlite_url: str, tmp_path: Path) -> None:
    with guarded(sqlite_url, tmp_path, access="open") as doorman:
        answer = doorman.client.get("/sign-in?to=/jobs", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/jobs")
        assert "Sign out" not in doorman.client.get("/jobs").text


def by_link(client: TestClient, path: str, **headers: str) -> Any:
    """Press the button of the page behind a link."""
    form = {"code": path.partition("code=")[2], "to": "/jobs"}
    where = {"headers": HERE | headers, "follow_redirects": False}
    return client.post("/sign-in", data=form, **where)


def a_link(doorman: Doorman) -> str:
    settings = doorman.client.app.state.settings  # type: ignore[attr-defined]
    return local_token.link(doorman.database, settings)


def test_a_link_signs_in_once_by_its_button_alone(doorman: Doorman) -> None:
    path = a_link(doorman)
    code = path.partition("code=")[2]
    for _ in range(3):
        page = doorman.client.get(path)
        assert (page.status_code, page.headers["Cache-Control"]) == (200, "no-store")
        assert f'name="code" value="{code}"' in page.text
        assert 'name="token"' not in page.text
        assert "set-cookie" not in page.headers
    answer = by_link(doorman.client, path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs")
    page = doorman.client.get("/jobs")
    assert 'title="Signed in as admin local"' in page.text
    again = by_link(TestClient(doorman.client.app), path)
    assert (again.status_code, "not good any more" in again.text) == (401, True)
    assert "set-cookie" not in again.headers


def test_of_two_who_press_the_button_at_once_one_is_signed_in(doorman: Doorman) -> None:
    path = a_link(doorman)
    with ThreadPoolExecutor(4) as pool:
        pressed = [pool.submit(by_link, doorman.client, path) for _ in range(4)]
        answers = [each.result().status_code for each in pressed]
    assert sorted(answers) == [303, 401, 401, 401]


def test_a_link_is_good_for_minutes_and_no_longer_than_its_token(doorman: Doorman) -> None:
    late, ended = a_link(doorman), a_link(doorman)
    with doorman.database.writing() as session:
        row = session.get_one(EnrolmentRow, late.split("_")[2])
        assert row.expires_at - row.created_at <= timedelta(minutes=15)
        row.expires_at = now_of(session) - timedelta(seconds=1)
    assert by_link(doorman.client, late).status_code == 401
    with doorman.database.writing() as session:
        session.execute(update(TokenRow).values(revoked_at=now_of(session)))
    assert by_link(doorman.client, ended).status_code == 401


def test_a_link_is_pressed_on_a_page_of_this_service_and_is_no_token(doorman: Doorman) -> None:
    path = a_link(doorman)
    assert by_link(doorman.client, path, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    code = path.partition("code=")[2]
    told = doorman.ask("GET", "/api/v1/jobs", code)
    assert (told.status_code, "open the link" in told.json()["detail"]) == (401, True)
    redeemed = {"code": code, "worker": "w1"}
    assert doorman.client.post("/api/v1/enrolments/redeem", json=redeemed).status_code == 401
    enrolment_code = doorman.ask("POST", "/api/v1/enrolments", doorman.local(), json={}).json()
    assert by_link(doorman.client, f"?code={enrolment_code['code']}").status_code == 401
    assert by_link(doorman.client, path).status_code == 303


def test_what_is_stored_of_a_link_does_not_sign_in(doorman: Doorman) -> None:
    path = a_link(doorman)
    with doorman.database.reading() as session:
        stored = repr(session.execute(text("SELECT * FROM enrolments")).all())
        noted = repr(session.execute(text("SELECT * FROM audit_events")).all())
    assert path.split("_")[2] in stored
    assert path.split("_")[3] not in stored + noted
    assert "token sign-in" in noted
