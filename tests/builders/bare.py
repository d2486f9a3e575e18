"""A server that does nothing but answer: what a request costs before any service does its part."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import uvicorn


@contextmanager
def answering(body: bytes) -> Iterator[int]:
    """Answer every request with ``body`` until the block ends; gives the port."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(answer, lifespan="off", log_config=None, access_log=False)
    # Naming the protocol lets asyncio set TCP_NODELAY.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive(), "the server ended at its start"
                time.sleep(0.01)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def timed(
    line: HTTPConnection, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[float, bytes]:
    """Ask on a connection that is kept; gives s until the whole answer was there, and its body.

    Raises:
        AssertionError: the answer is not 200.
    """
    began_s = time.perf_counter()
    line.request(method, path, body or None, headers)
    answer = line.getresponse()
    said = answer.read()
    took_s = time.perf_counter() - began_s
    assert answer.status == 200, said
    return took_s, said
