"""The token of a machine's own administrator: who gets it from `up`, and who does not."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from builders.commands import free_port, running
from builders.forked import ForkServer

from cli.exits import Exit
from worker.child.containment import SEEN, Containment, choose
from worker.settings import ContainmentSetting

Run = Callable[..., subprocess.CompletedProcess[str]]
LIMIT_S = 120.0
LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in\?code=tl_signin_\w+")
HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def thief(environment: dict[str, str]) -> dict[str, str]:
    """Settings under which each measurement tries to become an administrator first."""
    script = Path(__file__).with_name("thief.py")
    return {"THROUGHLINE_CHILD_COMMAND": f'["{sys.executable}", "{script}"]'}


def loot(tmp_path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((tmp_path / "cache" / "loot.json").read_text())
    return found


def test_in_a_pid_namespace_the_measured_code_gets_nothing(
    throughline: Run, thief: dict[str, str], tmp_path: Path
) -> None:
    if choose(ContainmentSetting.AUTO, "cpu")[0] is not Containment.PID_NAMESPACE:
        pytest.skip("no PID namespace can be had here")
    done = throughline("up", "--once", "-r", "v1", "--port", str(free_port()), **thief)
    assert done.returncode == Exit.OK, done.stderr
    nothing = {key: [] for key in ("environment", "files", "beside", "processes", "unmounted")}
    assert loot(tmp_path) == nothing | {"status": 401}
    assert SEEN[Containment.PID_NAMESPACE] in done.stderr
    assert SEEN[Containment.PID_NAMESPACE] in (tmp_path / "state/logs/worker-cpu.log").read_text()


@pytest.mark.slow
def test_in_a_process_group_it_can_read_the_token_and_a_person_is_told(
    throughline: Run, thief: dict[str, str], tmp_path: Path
) -> None:
    """Tokens are asked for, and that of the person who starts it is of another service."""
    more = thief | {"THROUGHLINE_CONTAINMENT": "process_group", "THROUGHLINE_ACCESS": "tokens"}
    more |= {"THROUGHLINE_TOKEN": "not-one-of-this-service"}
    done = throughline("up", "--once", "-r", "v1", "--port", str(free_port()), **more)
    assert done.returncode == Exit.OK, done.stderr
    found = loot(tmp_path)
    path = tmp_path / "state" / "local.token"
    assert str(path) in found["files"]
    assert (found["environment"], found["status"]) == ([], 401)
    assert SEEN[Containment.PROCESS_GROUP] in done.stderr
    assert not LINK.search(done.stderr + done.stdout), "whoever measures once needs no browser"
    token = path.read_text().strip()
    assert token.startswith("tl_admin_")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state" / "access.key").stat().st_mode) == 0o600
    secret = token.split("_")[3]
    assert secret not in done.stdout + done.stderr
    for log in (tmp_path / "state" / "logs").iterdir():
        assert secret not in log.read_text()


@dataclass(frozen=True)
class Up:
    """A `throughline up` that has measured and serves; each test keeps to links of its own."""

    folder: Path
    url: str
    throughline: Run


@pytest.fixture(scope="module")
def up(
    tmp_path_factory: pytest.TempPathFactory,
    forks: ForkServer,
    environment_in: Callable[[Path], dict[str, str]],
    throughline_in: Callable[[Path, dict[str, str]], Run],
) -> Iterator[Up]:
    folder, port = tmp_path_factory.mktemp("up"), str(free_port())
    environment = environment_in(folder) | {"THROUGHLINE_CLAIM_WAIT_S": "0.5"}
    environment |= {"THROUGHLINE_ACCESS": "auto"}
    log = folder / "up.log"
    with running(forks, folder, environment, "up", "-r", "v1", "--port", port) as process:
        deadline_s = time.monotonic() + LIMIT_S
        while "Ctrl-C stops everything" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        url = f"http://127.0.0.1:{port}"
        yield Up(folder, url, throughline_in(folder, environment))


def test_up_keeps_its_token_to_its_owner_who_needs_not_name_it(up: Up) -> None:
    folder = up.folder / "state"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "local.token").stat().st_mode) == 0o600
    secret = (folder / "local.token").read_text().split("_")[3].strip()
    for log in [up.folder / "up.log", *(folder / "logs").iterdir()]:
        assert secret not in log.read_text()
    here = {"THROUGHLINE_URL": up.url}
    done = up.throughline("submit", "unet", "-r", "v2", "--wait", **here)
    assert done.returncode == Exit.OK, done.stderr
    elsewhere = here | {"THROUGHLINE_STATE_DIR": str(up.folder / "none")}
    listed = up.throughline("jobs", "list", **elsewhere)
    assert listed.returncode == Exit.OK, "reading needs no token"
    refused = up.throughline("submit", "unet", "-r", "v3", **elsewhere)
    assert (refused.returncode, refused.stderr.count("\n")) == (Exit.USAGE, 1)
    assert "asks for a token" in refused.stderr


def test_the_links_that_up_prints_sign_in_once_each(up: Up) -> None:
    links = LINK.findall((up.folder / "up.log").read_text())
    assert len(set(links)) == 2, "one while it measures, one when it serves"
    for link in links:
        assert link.startswith(up.url)
        with httpx2.Client(base_url=up.url) as browser:
            for _ in range(3):  # whoever only looks behind the link uses nothing up
                assert browser.get(link).status_code == 200
            form = {"code": link.partition("code=")[2], "to": "/"}
            assert browser.post("/sign-in", data=form, headers=HERE).status_code == 303
            assert "Sign out" in browser.get("/").text
        with httpx2.Client(base_url=up.url) as other:
            again = other.post("/sign-in", data=form, headers=HERE)
            assert (again.status_code, "not good any more" in again.text) == (401, True)
            assert "Sign out" not in other.get("/").text


def test_a_command_prints_another_link(up: Up) -> None:
    made = up.throughline("token", "sign-in", THROUGHLINE_URL="")
    assert made.returncode == Exit.OK, made.stderr
    assert LINK.fullmatch(made.stdout.strip())
    assert made.stdout.startswith(up.url), "where the service of this state folder answers"
    assert "once" in made.stderr
    for log in (up.folder / "state" / "logs").iterdir():
        assert made.stdout.strip() not in log.read_text()


@pytest.mark.usefixtures("migrated")
def test_where_tokens_are_not_asked_for_nobody_signs_in(throughline: Run) -> None:
    made = throughline("token", "sign-in", THROUGHLINE_ACCESS="open")
    assert (made.returncode, "THROUGHLINE_ACCESS=open" in made.stderr) == (Exit.USAGE, True)


@pytest.mark.usefixtures("migrated")
def test_the_name_of_this_machines_own_token_is_taken(throughline: Run) -> None:
    refused = throughline("token", "create", "--kind", "admin", "--name", "local")
    assert (refused.returncode, "kept for" in refused.stderr) == (Exit.USAGE, True)
