"""A worker with a folder of checkouts, and schedules that name revisions after days."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.commands import free_port, running
from builders.forked import ForkServer

from cli.exits import Exit

Run = Callable[..., subprocess.CompletedProcess[str]]
LIMIT_S = 120.0


@pytest.fixture
def url(tmp_path: Path, forks: ForkServer, environment: dict[str, str]) -> Iterator[str]:
    """A `throughline up` from an empty folder, whose worker looks for checkouts."""
    (tmp_path / "checkouts").mkdir()
    port = str(free_port())
    log = tmp_path / "up.log"
    environment["THROUGHLINE_WORKER_TARGET"] = f"{tmp_path}/checkouts/{{revision}}"
    with running(forks, tmp_path, environment, "up", "--port", port) as process:
        deadline_s = time.monotonic() + LIMIT_S
        while "Ctrl-C stops everything" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"


@pytest.mark.slow
def test_the_built_in_rule_measures_what_is_installed_and_commits_still_need_a_checkout(
    url: str, throughline: Run
) -> None:
    here = {"THROUGHLINE_URL": url}
    first = json.loads(throughline("jobs", "list", "--json", **here).stdout)["items"]
    assert {job["state"] for job in first} == {"succeeded"}, "what `up` named after today"
    times = ("--cron", "0 2 * * *", "--suite", "smoke")
    assert throughline("schedule", "set", "daily", *times, **here).returncode == Exit.OK
    fired = throughline("schedule", "fire", "daily", "--json", **here)
    submission = json.loads(fired.stdout)
    done = throughline("report", submission["id"], "--wait", "--timeout", "100", **here)
    assert (done.returncode, len(submission["jobs"])) == (Exit.OK, 6), done.stderr
    commit = throughline("submit", "unet", "-r", "0a1b2c3", "--wait", **here)
    assert commit.returncode == Exit.FAILED
    assert "deploy it to" in commit.stdout
