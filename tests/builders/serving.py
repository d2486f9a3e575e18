"""A real server in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import uvicorn

from service.app import create_app
from service.settings import Settings


def serving(database_url: str) -> Iterator[str]:
    """Serve a database on a free port of the loopback until the caller is done."""
    app = create_app(Settings(database_url=database_url, background=False))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while not server.started:
            assert thread.is_alive(), "the server ended before it began to serve"
            assert time.monotonic() < deadline, "the server did not start within 20 s"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=20)
