"""Whoever has the service's address: its answers cost a command neither memory nor its end."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from builders import hostile

from cli import client as cli_client
from cli.client import ServiceClient
from cli.exits import Away, Exit, Stop
from worker.http_exchange import Bounds


@pytest.mark.parametrize("behaviour", hostile.SLOW, ids=lambda each: each.__name__)
def test_a_command_waits_for_no_endless_answer(
    behaviour: hostile.Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_client, "_BOUNDS", Bounds(2**20, 1.0))
    with hostile.answering(behaviour) as server, ServiceClient(server.url, "") as client:
        began_s = time.monotonic()
        with pytest.raises(Away, match="not complete after 1 s"):
            client.workers()
        assert time.monotonic() - began_s < 6.0


@pytest.mark.parametrize("behaviour", hostile.LARGE, ids=lambda each: each.__name__)
def test_a_command_holds_no_endless_answer(behaviour: hostile.Behaviour) -> None:
    before_b = peak_b()
    with hostile.answering(behaviour) as server, ServiceClient(server.url, "") as client:
        with pytest.raises(Away):
            client.workers()
        assert client.is_ready() is False
    assert peak_b() - before_b < 128 * 2**20


def test_a_trace_is_fetched_from_its_bucket_without_the_token() -> None:
    """And no other answer may send a command, with its token, elsewhere."""
    asked: list[tuple[str, str | None]] = []

    class Bucket(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the trace")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as bucket:
        threading.Thread(target=bucket.serve_forever, args=(0.02,)).start()
        there = f"http://127.0.0.1:{bucket.server_port}/abc?X-Amz-Signature=1".encode()

        def elsewhere(send: hostile.Send, pause: hostile.Pause) -> None:
            send(b"HTTP/1.1 307 -\r\nLocation: " + there + b"\r\nContent-Length: 0\r\n\r\n")

        with (
            hostile.answering(elsewhere) as server,
            ServiceClient(server.url, "tl_secret") as client,
        ):
            assert client.trace("0" * 32) == b"the trace"
            with pytest.raises(Stop):
                client.workers()
        bucket.shutdown()
    assert asked == [("/abc?X-Amz-Signature=1", None)]


def test_ctrl_c_ends_a_command_whose_answer_drips() -> None:
    with hostile.answering(hostile.dripping_body) as server:
        command = [sys.executable, "-m", "cli", "jobs", "list", "--url", server.url]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as asking:
            until_s = time.monotonic() + 30.0
            while not server.asked and time.monotonic() < until_s:
                time.sleep(0.02)
            asking.send_signal(signal.SIGINT)
            said = asking.communicate(timeout=10)[1]
    assert asking.returncode == Exit.INTERRUPTED
    assert b"Traceback" not in said


def peak_b() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
