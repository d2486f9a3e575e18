"""A receiver of webhooks on the loopback that answers as a test wants."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """What came, and how it is answered."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    answer: Callable[[int], bytes | None] = lambda _: OK
    """Bytes to answer the n-th request (from 0) with; None: none, and the connection stays open."""
    drip_s: float = 0.0
    """Pause after each byte of an answer."""
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: ThreadingHTTPServer | None = None

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/hook"

    def use_tls(self, certificate: Path, key: Path) -> None:
        """Expect TLS on connections from now on."""
        assert self.server is not None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    def ids(self) -> list[str]:
        return [one.headers["webhook-id"] for one in self.received]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(receiver))
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    receiver.server = server
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with receiver.lock:
                number = len(receiver.received)
                receiver.received.append(Received(self.path, headers, body))
            self.close_connection = True
            answer = receiver.answer(number)
            with contextlib.suppress(OSError):
                self._say(answer)

        def _say(self, answer: bytes | None) -> None:
            if answer is None:
                receiver.over.wait(30)
            elif not receiver.drip_s:
                self.wfile.write(answer)
            else:
                for byte in answer:
                    self.wfile.write(bytes([byte]))
                    time.sleep(receiver.drip_s)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
