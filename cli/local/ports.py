"""Finds a port on which the service can listen."""

from __future__ import annotations

import errno
import socket

from cli.exits import Exit, Stop

DEFAULT_PORT = 8765
_TRIES = 20


def choose(host: str, asked: int | None) -> int:
    """Take the port that was asked for, else 8765 or the next free one after it.

    Raises:
        Stop: the port that was asked for is in use, or ``host`` is not an address of this machine.
    """
    if asked is not None:
        _insist(host, asked)
        return asked
    for port in range(DEFAULT_PORT, DEFAULT_PORT + _TRIES):
        if _is_free(host, port):
            return port
    raise Stop(
        f"Ports {DEFAULT_PORT} to {DEFAULT_PORT + _TRIES - 1} are all in use: "
        "name a free one with --port.",
        Exit.FAILED,
    )


def _insist(host: str, port: int) -> None:
    if not _is_free(host, port):
        raise Stop(
            f"Port {port} is in use, perhaps by another Throughline: look at "
            f"http://{host}:{port}/, or name another port with --port."
        )


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the server does: a port in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise Stop(f"This machine cannot listen on {host}:{port}: {error.strerror}.") from error
    return True
