"""A request on a connection that is kept waits for nothing but the service's own work."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from statistics import median

import pytest
from builders.bare import answering, timed
from builders.served import serving, wait_until

STALL_S = 0.04
"""What the kernel waits before it acknowledges a head that comes without its body."""
TIMES = 25
HEALTH = "/api/v1/health"


def test_a_kept_connection_adds_no_stall_to_what_a_bare_server_takes(sqlite_url: str) -> None:
    with serving(sqlite_url) as served:
        line = HTTPConnection("127.0.0.1", served.port)
        _, said = timed(line, "GET", HEALTH)
        with answering(said) as port:
            bare = HTTPConnection("127.0.0.1", port)
            pairs = [
                (timed(line, "GET", HEALTH)[0], timed(bare, "GET", HEALTH)[0]) for _ in range(TIMES)
            ]
            bare.close()
        line.close()
    ours_s, bare_s = map(median, zip(*pairs, strict=True))
    assert ours_s < bare_s + STALL_S / 2, f"{ours_s} s, of a bare server {bare_s} s"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_every_connection_sends_at_once(sqlite_url: str, host: str) -> None:
    with serving(sqlite_url, host=host) as served, socket.create_connection((host, served.port)):
        wait_until(lambda: len(served.connections()) == 1)
        (connection,) = served.connections()
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
