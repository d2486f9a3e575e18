"""A server that answers in ways that no service does: for ever, in drops, in floods, packed."""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DROP_S = 0.2

Send = Callable[[bytes], None]
Pause = Callable[[], None]


def dripping_body(send: Send, pause: Pause) -> None:
    send(OK + b"Content-Length: 1000000\r\n\r\n")
    while True:
        send(b" ")
        pause()


def dripping_headers(send: Send, pause: Pause) -> None:
    send(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        send(b"x")
        pause()


def never_anything(send: Send, pause: Pause) -> None:
    while True:
        pause()


def endless_headers(send: Send, pause: Pause) -> None:
    send(b"HTTP/1.1 200 OK\r\n")
    while True:
        send(b"X-Flood: " + b"x" * 4_000 + b"\r\n")


def endless_promises(send: Send, pause: Pause) -> None:
    while True:
        send(b"HTTP/1.1 102 Processing\r\n\r\n" * 100)
        pause()


def endless_chunks(send: Send, pause: Pause) -> None:
    send(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b"[" * 65_536 + b"\r\n"
    while True:
        send(chunk)


def huge_body(send: Send, pause: Pause) -> None:
    send(OK + b"Content-Length: 4000000000\r\n\r\n")
    while True:
        send(b"[" * 65_536)


def packed(send: Send, pause: Pause) -> None:
    """A quarter of a MB that unpacks to 256 MiB."""
    packer = zlib.compressobj(9, wbits=31)
    body = b"".join(packer.compress(bytes(2**20)) for _ in range(256)) + packer.flush()
    length = str(len(body)).encode()
    send(OK + b"Content-Encoding: gzip\r\nContent-Length: " + length + b"\r\n\r\n" + body)


def redirect(send: Send, pause: Pause) -> None:
    send(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /api/v1/x\r\nContent-Length: 0\r\n\r\n")


def endless_redirect(send: Send, pause: Pause) -> None:
    send(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b"[" * 65_536 + b"\r\n"
    while True:
        send(chunk)


SLOW = (dripping_body, dripping_headers, never_anything, endless_promises)
LARGE = (endless_headers, endless_chunks, huge_body, packed)
Behaviour = Callable[[Send, Pause], None]


class Hostile:
    """Where it listens, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        self.requests = b""
        """All that it has read."""
        self.reads = True
        """Whether it reads what it is sent."""


@contextmanager
def answering(behaviour: Behaviour) -> Iterator[Hostile]:
    """Such a server; it ends with the block, and with it every answer."""
    ended, server = threading.Event(), Hostile()
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def pause() -> None:
            if ended.wait(DROP_S):
                raise ConnectionError

        def answer(connection: socket.socket) -> None:
            connection.settimeout(1.0)
            with connection, suppress(OSError):
                while server.reads and (request := connection.recv(65_536)):
                    server.asked += 1
                    server.requests += request
                    behaviour(connection.sendall, pause)
                while not server.reads:
                    pause()

        def listen() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    connection, _ = listener.accept()
                    threads.append(threading.Thread(target=answer, args=(connection,)))
                    threads[-1].start()

        threads.append(threading.Thread(target=listen))
        threads[0].start()
        try:
            yield server
        finally:
            ended.set()
            for thread in threads:
                thread.join()
