"""Tokens on the command line, and a machine that asks for them without ceremony."""

import json
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from builders.served import serving

from cli.exits import Exit
from service.auth import enrolment, token_store
from service.auth.enrolment import EnrolmentRequest
from service.auth.token_store import TokenRequest
from service.database.session import now_of
from service.schemas.access import TokenKind
from service.settings import Access
from worker.settings import Settings, child_environment

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.usefixtures("migrated")
def test_a_token_is_made_shown_renewed_and_ended(throughline: Run, tmp_path: Path) -> None:
    made = throughline("token", "create", "--kind", "submit", "--name", "ci", "--expires", "90d")
    assert made.returncode == Exit.OK, made.stderr
    token = made.stdout.strip()
    assert token.startswith("tl_submit_")
    assert token not in made.stderr
    token_id = token.split("_")[2]
    listed = throughline("token", "list")
    assert token_id in listed.stdout
    assert token.split("_")[3] not in listed.stdout
    renewed = throughline("token", "rotate", token_id, "--json")
    assert json.loads(renewed.stdout)["token"] != token
    assert "is revoked" in throughline("token", "revoke", token_id).stdout
    assert json.loads(throughline("token", "list", "--json").stdout)[0]["state"] == "revoked"
    unknown = throughline("token", "revoke", "0" * 16)
    assert (unknown.returncode, unknown.stderr.count("\n")) == (Exit.USAGE, 1)
    assert "throughline token list" in unknown.stderr


@pytest.mark.usefixtures("migrated")
def test_a_token_for_one_project_says_so(throughline: Run) -> None:
    order = ("token", "create", "--name", "ci", "--project", "red", "--kind")
    made = throughline(*order, "submit")
    assert made.returncode == Exit.OK, made.stderr
    assert "for ci and the project red." in made.stderr
    assert " red " in throughline("token", "list").stdout
    assert json.loads(throughline("token", "list", "--json").stdout)[0]["project"] == "red"
    for kind in ("worker", "admin"):
        refused = throughline(*order, kind)
        assert (refused.returncode, refused.stderr.count("\n")) == (Exit.USAGE, 1)
        assert f"--project: a token of the kind {kind} is for all projects" in refused.stderr


@pytest.mark.usefixtures("migrated")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("create", "--name", "r", "--expires", "1s"), "--expires must be from 60s to 3660d, not"),
        (("create", "--name", "r", "--expires", "99999999d"), "'99999999d' is too long"),
        (("create", "--name", "r", "--expires", "soon"), "'soon' is no span of time"),
        (("create", "--name", ""), "--name must be 1 to 64 of the characters"),
        (("create", "--name", "r", "--project", "É"), "--project must be 1 to 64 of the"),
        (("enrolment", "--valid", "1s"), "--valid must be from 60s to 7d, not 1s"),
        (("enrolment", "--valid", "8d"), "--valid must be from 60s to 7d, not 8d"),
        (("enrolment", "--worker", "É"), "--worker must be 1 to 64 of the characters"),
    ],
)
def test_a_wrong_order_for_a_token_names_the_option_and_its_limits(
    throughline: Run, words: tuple[str, ...], told: str
) -> None:
    kind = ("--kind", "read") if words[0] == "create" else ()
    done = throughline("token", *words, *kind)
    assert (done.returncode, done.stderr.count("\n")) == (Exit.USAGE, 1)
    assert told in done.stderr


def test_up_for_others_wants_tokens_first(throughline: Run) -> None:
    done = throughline("up", "--host", "0.0.0.0", "--once", "-r", "v1")
    assert done.returncode == Exit.USAGE
    assert "throughline token create --kind admin" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_measured_child_does_not_inherit_what_opens_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("THROUGHLINE_TOKEN", "THROUGHLINE_ACCESS_KEY", "THROUGHLINE_DATABASE_URL")
    for name in names:
        monkeypatch.setenv(name, "a-secret-of-mine")
    settings = Settings()
    assert settings.read_token() == "a-secret-of-mine"
    assert "a-secret-of-mine" not in repr(settings)
    assert "a-secret-of-mine" not in child_environment(settings).values()


def test_a_worker_that_was_enrolled_measures_with_a_token_of_its_own(
    throughline: Run, tmp_path: Path, sqlite_url: str
) -> None:
    with serving(sqlite_url, access=Access.TOKENS, state_dir=tmp_path / "service") as served:
        url = f"http://127.0.0.1:{served.port}"
        door = served.app.state.authenticator
        with served.app.state.database.writing() as session:
            now = now_of(session)
            code = enrolment.create(session, door.key, EnrolmentRequest(), now, None).code
            wanted = TokenRequest(kind=TokenKind.ADMIN, name="me")
            admin = token_store.create(session, door.key, wanted, now, None).token
        where = ("--url", url, "--name", "gpu-1")
        done = throughline("worker", "enroll", code, *where)
        assert done.returncode == Exit.OK, done.stderr
        path = tmp_path / "state" / "workers" / "gpu-1" / "token"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().startswith("tl_worker_")
        again = throughline("worker", "enroll", code, *where)
        assert (again.returncode, again.stderr.count("\n")) == (Exit.USAGE, 1)
        ask = {"THROUGHLINE_URL": url, "THROUGHLINE_TOKEN": admin}
        spec = {"case": {"workload": "unet"}, "revision": "v1"}
        shown = {"Authorization": f"Bearer {admin}"}
        job = httpx2.post(f"{url}/api/v1/jobs", json=spec, headers=shown).json()["id"]
        worked = throughline("worker", "--once", "--device", "cpu", *where)
        assert worked.returncode == Exit.OK, worked.stderr
        told = throughline("jobs", "show", job, **ask)
        assert "succeeded" in told.stdout
        assert "on gpu-1" in told.stdout


@pytest.mark.usefixtures("migrated")
def test_a_token_in_a_file_is_made_once_and_again_when_it_is_good_no_more(
    throughline: Run, tmp_path: Path
) -> None:
    path = tmp_path / "workers" / "w1" / "token"
    order = ("token", "create", "--kind", "worker", "--name", "w1", "--file", str(path))
    done = throughline(*order)
    assert (done.returncode, done.stdout) == (Exit.OK, ""), done.stderr
    first = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert throughline(*order).returncode == Exit.OK
    assert path.read_text() == first
    assert throughline("token", "revoke", first.split("_")[2]).returncode == Exit.OK
    assert throughline(*order).returncode == Exit.OK
    assert path.read_text() != first
    assert first.strip() not in done.stderr
    refused = throughline(*order[:-1], str(tmp_path / "workers"))
    assert (refused.returncode, refused.stderr.count("\n")) == (Exit.USAGE, 1)
