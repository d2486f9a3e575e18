"""Whoever can cause log lines causes a bounded number of them, and they say who it was."""

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from builders.access import Clock
from builders.served import serving

from benchmarks import log_rate
from benchmarks.log_rate import LINES, RateLimit
from service.auth import token_format
from service.settings import Access

MANY = 200
NO_HTTP = b"this is no HTTP\r\n\r\n"
UPGRADE = (
    b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: x\r\n\r\n"
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(log_rate, "time", stopped)
    return stopped


@pytest.fixture
def limited(clock: Clock) -> Iterator[tuple[logging.Logger, RateLimit, list[str]]]:
    """A logger of its own, its limit, and the lines that were written."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler, limit = logging.getLogger("flooded"), Kept(), RateLimit()
    handler.addFilter(limit)
    logger.addHandler(handler)
    yield logger, limit, lines
    logger.removeHandler(handler)


def test_lines_of_one_kind_are_few_and_their_number_is_told(
    limited: tuple[logging.Logger, RateLimit, list[str]], clock: Clock
) -> None:
    logger, _, lines = limited
    for number in range(MANY):
        logger.warning("%d was refused", number)
    logger.warning("another kind")
    assert lines == [*(f"{number} was refused" for number in range(LINES)), "another kind"]
    clock.now_s += 61
    logger.warning("%d was refused", MANY)
    assert lines[-2:] == [
        f"{MANY - LINES} more lines like this were left out in 60 s: %d was refused",
        f"{MANY} was refused",
    ]


def test_the_number_is_told_though_no_line_follows(
    limited: tuple[logging.Logger, RateLimit, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, limit, lines = limited
    waited: list[float] = []
    monkeypatch.setattr(limit, "_tell_later", waited.append)
    for _ in range(MANY):
        logger.warning("refused")
    assert waited == [60.0]  # one thread waits, however many lines there are
    limit.tell()
    limit.tell()
    assert lines[LINES:] == [f"{MANY - LINES} more lines like this were left out in 60 s: refused"]


def test_kinds_without_number_cost_no_memory_without_bound(
    limited: tuple[logging.Logger, RateLimit, list[str]],
) -> None:
    logger, limit, lines = limited
    for number in range(5_000):
        logger.warning(f"made of a stranger's words: {number}")
    assert len(limit._seen) <= 1_001
    assert len(lines) <= 1_000 + LINES


@pytest.mark.parametrize("sent", [NO_HTTP, UPGRADE])
def test_each_line_about_a_malformed_request_says_who_sent_it(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    with serving(sqlite_url) as served:
        for _ in range(3):
            with served.connect() as line:
                line.sendall(sent)
                while line.recv(2**16):
                    pass
    written = [each.getMessage() for each in caplog.records]
    assert len(written) == 3
    assert all("127.0.0.1" in each for each in written)


def test_a_refused_request_writes_no_line(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are too many to be written one by one, and whoever sent them was told."""
    with serving(sqlite_url, access=Access.TOKENS, state_dir=tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}"
        for path in ("/api/v1/jobs", "/none", "/api/v1/health?no=1", "/sign-in?to=%00"):
            told = {"Authorization": f"Bearer {token_format.new('admin').text}"}
            assert 400 <= httpx2.get(f"{url}{path}", headers=told).status_code < 500
    assert caplog.records == []


def test_a_flood_of_malformed_requests_leaves_some_lines_and_a_number(tmp_path: Path) -> None:
    """As seen from outside: the log of a whole process."""
    program = (
        "import logging; from benchmarks.terminal import log_to_stderr; log_to_stderr();"
        f"[logging.getLogger('x').warning('%s sent no HTTP', n) for n in range({MANY})]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    assert len(lines) == LINES + 1
    assert re.search(rf"{MANY - LINES} more lines like this were left out", lines[-1])
