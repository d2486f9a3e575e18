"""Waiting for a submission while the service comes and goes."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from cli import watch
from cli.client import ServiceClient
from cli.commands import schedule
from cli.commands.schedule import list_schedules
from cli.exits import Exit, Stop
from cli.output.console import Console
from cli.output.progress import PlainLines
from service.schemas.jobs import SubmissionView

NO_ONE = "http://127.0.0.1:9"
OPEN: dict[str, Any] = {
    "id": "5" * 32,
    "suite": None,
    "project": "",
    "source": "api",
    "revision": "v1",
    "created_at": "2026-11-20T00:00:00Z",
    "finished": False,
    "counts": {},
    "jobs": [],
}
DONE = OPEN | {"finished": True}
BUSY = {"type": "database-unavailable", "title": "Database unavailable", "status": 503}
GONE = {"type": "not-found", "title": "Not found", "status": 404, "detail": "None such."}
AWAY = (503, BUSY | {"detail": "The database is busy."})
PROXY = (502, "<html>Bad gateway</html>")
HANG_UP = (0, None)


@contextmanager
def answering(*answers: tuple[int, Any]) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers in turn; its address and what it was asked."""
    asked: list[str] = []
    rest = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body = next(rest)
            if status == 0:
                self.close_connection = True
                return
            page = isinstance(body, str)
            content = (body if page else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if page else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_DELETE = do_GET  # noqa: N815 - the name that the server looks for

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch, said: io.StringIO) -> Callable[..., SubmissionView]:
    """Follow the submission at an address, and bear with its service for half a second."""
    monkeypatch.setattr(watch, "PATIENCE_S", 0.5)
    monkeypatch.setattr(watch, "RETRY_S", 0.02)

    def run(url: str, **more: Any) -> SubmissionView:
        with ServiceClient(url) as client:
            view = PlainLines(Console(file=said))
            return watch.follow(client, SubmissionView.model_validate(OPEN), view, **more)

    return run


@pytest.mark.parametrize("fault", [AWAY, PROXY, HANG_UP], ids=["503", "502 of a proxy", "hang-up"])
def test_a_service_that_is_away_for_a_moment_is_borne_with_and_said_once(
    follow: Callable[..., SubmissionView], said: io.StringIO, fault: tuple[int, Any]
) -> None:
    with answering((200, OPEN), fault, fault, (200, DONE)) as (url, _):
        assert follow(url).finished
    assert said.getvalue() == "The service is away; asking again for 0.5 s.\n"


def test_a_service_that_stays_away_ends_the_waiting(follow: Callable[..., SubmissionView]) -> None:
    began_s = time.monotonic()
    with pytest.raises(Stop, match="No Throughline service answers") as stopped:
        follow(NO_ONE)
    assert stopped.value.code is Exit.AWAY
    assert 0.5 <= time.monotonic() - began_s < 10


def test_the_limit_on_waiting_counts_while_the_service_is_away(
    follow: Callable[..., SubmissionView],
) -> None:
    with pytest.raises(Stop, match=r"not finished after 0\.1 s") as stopped:
        follow(NO_ONE, timeout_s=0.1)
    assert stopped.value.code is Exit.TIMEOUT


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((404, GONE), Exit.USAGE),
        ((200, "<html>Another server</html>"), Exit.AWAY),
    ],
)
def test_an_answer_that_will_not_change_ends_the_waiting_at_once(
    follow: Callable[..., SubmissionView], answer: tuple[int, Any], code: Exit
) -> None:
    with answering(answer) as (url, asked), pytest.raises(Stop) as stopped:
        follow(url)
    assert stopped.value.code is code
    assert len(asked) == 1


def test_each_look_is_held_by_the_service_and_not_repeated_in_haste(
    follow: Callable[..., SubmissionView],
) -> None:
    with answering((200, OPEN), (200, DONE)) as (url, asked):
        follow(url)
    assert asked == [f"/api/v1/submissions/{'5' * 32}?wait_s={watch.LOOK_S}"] * 2


PAGE = "<html>Sign in</html>"


@pytest.fixture
def refusal() -> Callable[..., Stop]:
    """What a call says where a server gives this answer."""

    def run(call: Callable[[ServiceClient], object], answer: tuple[int, Any]) -> Stop:
        with (
            answering(answer) as (url, _),
            ServiceClient(url) as client,
            pytest.raises(Stop) as stopped,
        ):
            call(client)
        return stopped.value

    return run


@pytest.mark.parametrize("answer", [(200, PAGE), (200, [1, 2]), (202, {})])
def test_a_schedule_is_gone_only_if_a_service_says_so(
    refusal: Callable[..., Stop], answer: tuple[int, Any]
) -> None:
    said = refusal(lambda client: client.delete_schedule("nightly"), answer)
    assert "check THROUGHLINE_URL" in said.sentence
    assert said.code is Exit.AWAY


def test_a_page_that_answers_for_the_service_is_not_taken_for_another_version(
    refusal: Callable[..., Stop],
) -> None:
    said = refusal(ServiceClient.schedules, (200, PAGE))
    assert "answered 200, but not as a Throughline service does" in said.sentence
    assert said.code is Exit.AWAY


SCHEDULE = {
    "name": "nightly",
    "cron": "30 1,3,5 * * 1-5",
    "timezone": "Europe/Zurich",
    "suite": "nightly",
    "project": "",
    "created_at": "2026-11-20T00:00:00Z",
    "revision_rule": "latest",
    "explore_s": 0.0,
    "again": False,
    "note": "",
    "requires": {"device": "cuda"},
    "enabled": True,
    "next_due_at": "2026-11-24T02:00:00Z",
}


def test_why_a_schedule_waits_stands_below_the_table(
    monkeypatch: pytest.MonkeyPatch, said: io.StringIO
) -> None:
    waits = SCHEDULE | {"name": "main", "note": "It waits. ours has no ref [main]."}
    monkeypatch.setattr(schedule, "paper", lambda: Console(file=said, width=120))
    with answering((200, {"items": [SCHEDULE, waits], "next_cursor": None})) as (url, _):
        list_schedules(url=url)
    assert said.getvalue().splitlines()[-1] == "main: It waits. ours has no ref [main]."


@pytest.mark.parametrize(("width", "more"), [(80, False), (140, True)])
def test_the_names_of_schedules_can_be_read_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, said: io.StringIO, width: int, more: bool
) -> None:
    listed = SCHEDULE
    items = [listed, listed | {"name": "weekdays-of-the-farm"}, listed | {"name": "j" * 64}]
    monkeypatch.setattr(schedule, "paper", lambda: Console(file=said, width=width))
    for shown in (items[:2], items):
        with answering((200, {"items": shown, "next_cursor": None})) as (url, _):
            list_schedules(url=url)
    text = said.getvalue()
    assert "\u2026" not in text
    assert text.count("nightly") == 7
    assert text.count("30 1,3,5 * * 1-5") == 5
    assert "".join(re.findall("j+", text)) == "j" * 64
    assert ("device=cuda" in text) == more
