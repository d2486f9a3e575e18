"""`throughline findings` against a real service that has found something."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import long_series as long
from builders.served import serving
from sqlalchemy import select

from cli.commands import findings as commands
from cli.exits import Exit
from service.auth import token_store
from service.auth.token_store import TokenRequest
from service.database.session import Database, now_of
from service.findings import ACTIONS, pipeline
from service.models import FindingRow, FindingState
from service.schemas.access import TokenKind
from service.settings import Access

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def service(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Settings with which an administrator uses a service with one finding, and CI's token."""
    folder = tmp_path_factory.mktemp("findings")
    shutil.copyfile(sqlite_template, folder / "db.sqlite3")
    noise = np.exp(np.random.default_rng(2).normal(0, 0.003, 32))
    level = np.array([100.0] * 20 + [95.0] * 12) * noise
    with serving(
        f"sqlite:///{folder}/db.sqlite3", access=Access.TOKENS, state_dir=folder
    ) as served:
        database = served.app.state.database
        with database.writing() as session:
            long.prepare(session)
            long.add(session, {n: float(v) for n, v in enumerate(level)})
        pipeline.look(database)
        tokens = {}
        for kind in (TokenKind.ADMIN, TokenKind.SUBMIT):
            with database.writing() as session:
                wanted = TokenRequest(kind=kind, name="ann")
                key = served.app.state.authenticator.key
                tokens[kind] = token_store.create(session, key, wanted, now_of(session), None).token
        yield {
            "THROUGHLINE_URL": f"http://127.0.0.1:{served.port}",
            "THROUGHLINE_TOKEN": tokens[TokenKind.ADMIN],
            "submit": tokens[TokenKind.SUBMIT],
            "database": f"sqlite:///{folder}/db.sqlite3",
        }


@pytest.fixture
def ask(service: dict[str, str], throughline: Run) -> Run:
    told = {name: value for name, value in service.items() if name.startswith("THROUGHLINE")}

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return throughline("findings", *arguments, **told | more)

    return run


def read(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == Exit.OK, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def finding(service: dict[str, str]) -> Iterator[str]:
    """The id of the finding, which is open."""
    database = Database(service["database"])
    with database.writing() as session:
        (row,) = session.scalars(select(FindingRow))
        row.state, row.closed_at = FindingState.OPEN, None
        found = row.id
    yield found
    database.close()


def test_there_is_a_command_for_each_action_of_the_api() -> None:
    assert {name.replace("-", "_") for name in commands.ACTIONS} == ACTIONS.keys()


def test_a_finding_is_listed_and_shown_for_people_and_for_programs(ask: Run, finding: str) -> None:
    listed = ask("list")
    assert finding in listed.stdout
    assert "% slower since r00020" in " ".join(listed.stdout.split())
    shown = ask("show", finding)
    assert shown.returncode == Exit.OK, shown.stderr
    assert "first bad  r00020" in shown.stdout
    assert "resnet50" in shown.stdout
    assert "\u2212" in shown.stdout.partition("series")[2], "how far it moved, signed as measured"
    told = read(ask("show", finding, "--json"))
    assert told["summary"]["id"] == finding
    assert told["attribution"] is not None, "a program gets all of it"
    report = ask("report", "--hours", "100")
    assert "1 finding of any age asks for attention" in report.stdout
    assert read(ask("report", "--json"))["active"] == 1


def test_a_finding_is_shown_with_its_newest_bisection(
    ask: Run, finding: str, service: dict[str, str]
) -> None:
    assert "bisected" not in ask("show", finding).stdout
    ends = [{"revision": "r00019"}, {"revision": "r00020"}]
    begun = urllib.request.Request(
        f"{service['THROUGHLINE_URL']}/api/v1/bisections",
        json.dumps({"finding": finding, "commits": ends}).encode(),
        {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {service['THROUGHLINE_TOKEN']}",
        },
    )
    with urllib.request.urlopen(begun, timeout=10) as answer:
        told = json.load(answer)
    shown = ask("show", finding)
    assert f"bisected   {told['sentence']}" in shown.stdout
    assert told["sentence"]


@pytest.mark.parametrize("action", ["acknowledge", "resolve", "expect", "not-reproduced"])
def test_each_action_changes_the_finding_and_leaves_its_reason(
    ask: Run, finding: str, action: str
) -> None:
    done = ask(action, finding, "--why", "the fan was broken", "--as", "ann lee")
    assert done.returncode == Exit.OK, done.stderr
    last = done.stdout.splitlines()[-1]
    assert "ann lee" in last
    assert last.endswith(f"{action.replace('-', ' ')}: the fan was broken")
    if action != "acknowledge":
        assert ask("list").stdout == "There are no such findings.\n"
        assert finding in ask("list", "--all").stdout
    again = ask(action, finding, "--as", "ann")
    assert (again.returncode, again.stderr.count("\n")) == (Exit.USAGE, 1)


def test_a_finding_is_assigned_and_let_go(ask: Run, finding: str) -> None:
    plan = ("--owner", "bea", "--due", "2026-12-01", "--note", "see the driver", "--as", "ann")
    done = ask("assign", finding, *plan)
    assert done.returncode == Exit.OK, done.stderr
    for said in ("owner      bea", "due        2026-12-01", "note       see the driver"):
        assert said in done.stdout
    free = read(ask("assign", finding, "--owner", "", "--due", "", "--as", "ann", "--json"))
    assert (free["summary"]["owner"], free["summary"]["due_on"]) == ("", None)
    nothing = ask("assign", finding)
    assert (nothing.returncode, "--owner" in nothing.stderr) == (Exit.USAGE, True)


def test_who_names_the_version_that_he_saw_overwrites_nobody(ask: Run, finding: str) -> None:
    seen = str(read(ask("show", finding, "--json"))["summary"]["version"])
    assert ask("acknowledge", finding, "--seen", seen, "--as", "ann").returncode == Exit.OK
    late = ask("resolve", finding, "--seen", seen, "--as", "bea")
    assert (late.returncode, "read it again" in late.stderr) == (Exit.USAGE, True)


def test_a_token_of_ci_reads_findings_and_acts_on_none(
    ask: Run, finding: str, service: dict[str, str]
) -> None:
    """It could call the regression of its own change expected."""
    ci = {"THROUGHLINE_TOKEN": service["submit"]}
    assert ask("show", finding, **ci).returncode == Exit.OK
    for order in (("expect", finding), ("assign", finding, "--owner", "ci")):
        refused = ask(*order, "--as", "ci", **ci)
        assert (refused.returncode, refused.stdout) == (Exit.USAGE, "")
        assert "it takes one of the kind admin" in refused.stderr


def test_what_is_not_there_is_one_sentence(ask: Run) -> None:
    for order in (("show", "0" * 32), ("resolve", "0" * 32, "--as", "a"), ("list", "--kind", "x")):
        done = ask(*order)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (Exit.USAGE, "", 1)
