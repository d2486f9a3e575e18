"""`throughline demo`: labelled, whole, and gone without a trace."""

import json
import signal
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from builders.commands import free_port
from builders.forked import Forked, ForkServer

from cli.demo import nights
from cli.demo.fill import NOTICE, measured_rows

RAW = Path(__file__).parents[2] / "benchmarks" / "results" / "h200"
LIMIT_S = 240.0


@dataclass
class Demo:
    """A demo that serves."""

    process: Forked
    url: str
    folder: Path

    def page(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return str(answer.read().decode())

    def items(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.page(f"/api/v1{path}"))["items"]
        return items


@pytest.fixture
def demo(tmp_path: Path, forks: ForkServer, environment: dict[str, str]) -> Iterator[Demo]:
    """A demo of somebody who has a service of his own."""
    port = free_port()
    own = {
        "TMPDIR": str(tmp_path),
        "THROUGHLINE_DATABASE_URL": f"sqlite:///{tmp_path}/mine.sqlite3",
        "THROUGHLINE_OUTBOX": str(tmp_path / "outbox.toml"),
    }
    with (tmp_path / "demo.log").open("w+") as log:
        process = forks.start(
            *("cli", "demo", "--port", str(port)),
            folder=tmp_path,
            environment=environment | own,
            stdout=log,
            stderr=log,
            session=True,
        )
        until_s = time.monotonic() + LIMIT_S
        while "Dashboard:" not in (said := (tmp_path / "demo.log").read_text()):
            assert process.poll() is None, said
            assert time.monotonic() < until_s, said
            time.sleep(0.1)
        yield Demo(process, f"http://127.0.0.1:{port}", tmp_path)
        process.terminate()
        process.wait(30)


def test_it_shows_what_happened_says_what_is_simulated_and_leaves_nothing(demo: Demo) -> None:
    told = " ".join(finding["sentence"] for finding in demo.items("/findings"))
    pictured = next(one for one in demo.items("/findings") if "bf16 nanogpt" in one["sentence"])
    assert "Before and after" in demo.page(f"/findings/{pictured['id']}")  # as README shows it
    for event in ("bf16 nanogpt is 3", "peak memory of unet is 5", "Worker synthetic-b is 4"):
        assert event in told
    for path in ("/", "/cases", "/findings", "/explore", "/jobs", "/workers"):
        assert NOTICE in demo.page(path)
    projects = {one["project"] for one in demo.items("/series?metric=throughput&limit=100")}
    assert projects == {"synthetic", "measured"}
    assert not (demo.folder / "mine.sqlite3").exists()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(60) == 0
    assert list(demo.folder.glob("throughline-demo-*")) == []


def test_our_results_are_the_rows_that_were_measured() -> None:
    raw = [RAW / f"ladder-{name}.jsonl" for name in ("resnet50", "nanogpt-unet")]
    rows = [json.loads(line) for file in raw for line in file.read_text().splitlines()]
    assert list(measured_rows()) == rows


def test_the_same_history_is_simulated_again() -> None:
    case, at = nights.cases()[0], datetime(2026, 1, 1, tzinfo=UTC)
    first, again = (nights.measured(case, nights.NODES[0], 3, at) for _ in range(2))
    assert first == again
    assert first != nights.measured(case, nights.NODES[1], 3, at)
