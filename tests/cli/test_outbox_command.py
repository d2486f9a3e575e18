"""`throughline outbox` against a real service that sends to a receiver on the loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.receiver import Receiver, receiving, status
from builders.served import Served, serving, wait_until
from sqlalchemy import update

from service.models import DeliveryRow

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def service(sqlite_url: str, tmp_path: Path, receiver: Receiver) -> Iterator[Served]:
    path = tmp_path / "outbox.toml"
    path.write_text(
        'address = "https://perf.example.com"\n[[sink]]\nname = "chat"\nkind = "slack"\n'
        f'url = "{receiver.url()}"\nprivate = true\n'
    )
    settings = {"outbox": path, "background": True, "role": "web", "sweep_s": 0.05}
    with serving(sqlite_url, **settings) as served:
        yield served


def test_a_sink_is_tried_and_a_dead_letter_sent_again(
    service: Served, receiver: Receiver, throughline: Run
) -> None:
    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        url = f"http://127.0.0.1:{service.port}"
        return throughline("outbox", *arguments, "--url", url)

    assert "Nothing was sent." in ask().stdout
    receiver.answer = lambda number: status(503, body=b"later") if number == 0 else status(200)
    done = ask("--test", "chat")
    assert (done.returncode, done.stderr) == (0, "")
    assert "waiting" in done.stdout
    wait_until(lambda: "It answered 503: later" in ask().stdout)
    with service.app.state.database.writing() as session:
        session.execute(update(DeliveryRow).values(state="dead"))
    [dead] = json.loads(ask("--state", "dead", "--json").stdout)
    assert "waiting" in ask("--again", dead["id"]).stdout
    wait_until(lambda: "delivered" in ask().stdout)
    assert ask("--again", dead["id"]).returncode == 2
    nobody = ask("--test", "nobody")
    assert (nobody.returncode, nobody.stdout) == (2, "")
    assert "THROUGHLINE_OUTBOX names no such sink." in nobody.stderr
    assert ask("--test", "chat", "--again", dead["id"]).returncode == 2
    assert ask("--dismiss", dead["id"]).returncode == 2, "it was delivered"
    with service.app.state.database.writing() as session:
        session.execute(update(DeliveryRow).values(state="dead"))
    assert "dismissed" in ask("--dismiss", dead["id"]).stdout
