"""`throughline report --night` in each of its forms, from a real service."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from builders.served import Served, serving
from sqlalchemy import update

from service.database.session import now_of
from service.jobs import schedules
from service.models import Schedule

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def service(sqlite_url: str) -> Iterator[Served]:
    """A service whose only schedule has fired an hour ago."""
    with serving(sqlite_url) as served:
        with served.app.state.database.writing() as session:
            now = now_of(session)
            hour_ago = now - timedelta(hours=1)
            session.execute(update(Schedule).values(next_due_at=hour_ago))
            assert schedules.fire_due(session, hour_ago)
        yield served


def test_a_night_is_printed_in_each_form(service: Served, throughline: Run) -> None:
    address = f"http://127.0.0.1:{service.port}"

    def ask(*arguments: str, code: int = 0) -> str:
        done = throughline("report", *arguments, "--url", address)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    document = json.loads(ask("--night", "--json"))
    night = document["night"]
    assert json.loads(ask("--night", night, "--format", "json")) == document
    text = ask("--night", night)
    assert text.startswith(f"Night of {night}: nothing is known, 0 of ")
    assert "Not measured\n" in text
    assert ask("--night", "--markdown") == ask("--night", "--format", "markdown")
    assert ask("--night", "--format", "html").startswith("<!doctype html>")
    [entry] = ET.fromstring(ask("--night", "--format", "atom")).iter(
        "{http://www.w3.org/2005/Atom}entry"
    )
    assert entry.findtext("{http://www.w3.org/2005/Atom}id") == f"{address}/nights/{night}"
    assert "nothing was scheduled" in ask("--night", "2020-02-02")
    assert "is no date" in ask("--night", "2020-02-31", code=2)
    assert "Name a submission, or ask for a --night." in ask(code=2)
    assert "Name a submission" in ask("f" * 32, "--format", "html", code=2)
    assert ask("--night", "--against", "r1", code=2)
