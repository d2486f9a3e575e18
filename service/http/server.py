"""Serves an application on a socket, with limits on what a client may take of time and room.

uvicorn bounds neither how long a request's head may take nor how long an answer may lie untaken,
answers what is no HTTP in plain text, drops a client that closes its own side of the connection
before it has its answer, and has no share for each client; all of that is mended here.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import resource
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from service.auth.principal import network_of
from service.http import problems
from service.http.connection_share import Strangers
from service.http.long_poll import ANSWER_NOW
from service.http.security_headers import ALWAYS
from service.schemas.errors import BadRequest, HeadersTooLarge, Overloaded, ServiceError, TooSlow
from service.settings import Settings

log = logging.getLogger(__name__)

_GRACE_S = 5
_HEAD_B = 16_384
"""Of a request's line and headers, while they are incomplete."""
_LAST_ANSWER_S = 4.0
"""How long a client may take the last answer of a service that stops. What works on an answer
that nobody takes would else be broken off, each with a page of traceback in the log."""
_UNSENT_B = 2**17
"""Of an answer, in the kernel: enough for it to go on sending while the service wakes up."""
_M_MMAP_THRESHOLD = -3
"""As malloc.h has it."""
_LARGE_BLOCK_B = 2**18
_ACCEPTED = 16
"""Connections that are let in before others are served again. asyncio would let in all that wait:
a burst of thousands held everybody up for seconds, and took more files than there are."""
_WAITING = 2_048
"""Connections that may wait to be let in: as many workers may come back at once."""
_SPARE_FILES = 64 + 4 * _ACCEPTED
"""Open files that are no client's: the database, the log, the program's own; and those of
connections that were just let in or are about to end."""
_CROWDED = "Too many connections; try again in a moment."
_STATUS_LINES = {
    400: b"400 Bad Request",
    408: b"408 Request Timeout",
    431: b"431 Request Header Fields Too Large",
    503: b"503 Service Unavailable",
}


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address of IPv4 or IPv6."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_WAITING)


class Server(uvicorn.Server):
    """Lets connections in by few at a time, however many wait."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen; uvicorn takes one number for how many may wait and how many come in."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_WAITING)


def serve(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    _keep_what_is_loaded()
    _give_large_blocks_back()
    # uvicorn stops in order and then raises the signal again, for whoever was there before.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        Server(configuration(app, settings)).run(sockets=[listener])


def _keep_what_is_loaded() -> None:
    gc.collect()
    gc.freeze()


def _give_large_blocks_back() -> None:
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):  # glibc's alone
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_B)


def configuration(app: FastAPI, settings: Settings) -> Config:
    """Return the settings with which uvicorn serves ``app``."""
    return Config(
        app,
        http=_connection_of(settings, affordable(settings.connections)),
        ws="none",
        backlog=_ACCEPTED,
        h11_max_incomplete_event_size=_HEAD_B,
        timeout_keep_alive=settings.idle_timeout_s,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # Named ones alone: uvicorn would believe whatever runs on this machine.
        proxy_headers=bool(settings.named_proxies),
        forwarded_allow_ips=settings.named_proxies,
        timeout_graceful_shutdown=_GRACE_S,
    )


def affordable(connections: int) -> int:
    """As many connections as the process may open, after asking for as many files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = connections + _SPARE_FILES
    if soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, soft - _SPARE_FILES)


def _connection_of(settings: Settings, most: int) -> type[Connection]:
    """The class that uvicorn makes one object of for each connection."""
    return type(
        "LimitedConnection",
        (Connection,),
        {
            "most": most,
            "strangers": Strangers(),
            "head_timeout_s": settings.head_timeout_s,
            "answer_timeout_s": settings.answer_timeout_s,
        },
    )


def _logged_here(record: logging.LogRecord) -> bool:
    return record.msg != "Invalid HTTP request received."


_FAULTS = logging.getLogger(f"{__name__}.faults")
_FAULTS.addFilter(_logged_here)


class Connection(H11Protocol):
    """One client's connection; it ends when the client takes too long.

    The head of a request must be complete ``head_timeout_s`` after the connection was made, or
    after the first byte of a further request; uvicorn's own timer is for the time between. An
    answer that lies untaken must be whole ``answer_timeout_s`` later. Of more than ``most``
    connections one of a stranger ends.
    """

    most = 1_000
    head_timeout_s = 10.0
    answer_timeout_s = 60.0
    strangers = Strangers()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = _FAULTS
        self._head: asyncio.TimerHandle | None = None
        self._answer: asyncio.TimerHandle | None = None
        self._half_closed = False
        self.network = ""

    @property
    def is_known(self) -> bool:
        """Return True if the newest request came with a good token."""
        principal = self.scope and self.scope.get("state", {}).get("principal")
        return principal is not None and principal.token_id is not None

    @property
    def awaits_head(self) -> bool:
        """Return True while the time limit for a request's head is running."""
        return self._head is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the client in, if there is room."""
        super().connection_made(transport)
        _prepare(transport.get_extra_info("socket"))
        self.network = network_of(self.client[0]) if self.client else ""
        if len(self.connections) > self.most and not self.strangers.make_room():
            self._end_with(Overloaded(_CROWDED))
            return
        self.strangers.note(self)
        self._head = self.loop.call_later(self.head_timeout_s, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers with the connection."""
        self.strangers.forget(self)
        self._forget_head()
        self._forget_answer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, and note whether a head is still incomplete."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        """Go on with the next request; its head may have begun to come already."""
        if not self.transport.is_closing():
            self.strangers.note(self)
        self._forget_answer()
        if self.flow.write_paused:  # the end of this answer; the next one has its own time
            self._watch_answer()
        super().on_response_complete()
        self._watch_head()
        if self._half_closed:
            self._end_half_closed()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what a client asked before it closed its side; asyncio would end the connection.

        The client may as well be gone. So whatever waits for something to answer stops to wait.
        """
        self._half_closed = True
        self._end_half_closed()
        return True

    def give_way(self) -> None:
        """End, because another one needs the room."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # the client takes nothing: an end in order would wait for it
        elif self._is_idle():
            self.transport.close()
        else:
            self._end_with(Overloaded(_CROWDED))

    def shutdown(self) -> None:
        """Let the answer in the making out; then end, before uvicorn breaks what works on it."""
        super().shutdown()
        if self.scope:
            self.scope["state"][ANSWER_NOW] = True
        self.loop.call_later(_LAST_ANSWER_S, self.transport.abort)

    def pause_writing(self) -> None:
        """Wait for the client to take what it was sent, but not for ever."""
        super().pause_writing()
        self._watch_answer()

    def resume_writing(self) -> None:
        """Write on; a client that takes a little now and then does not begin the time anew."""
        if self.cycle is None or self.cycle.response_complete:
            self._forget_answer()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's name and sentence
        """Answer what is no HTTP, or not the part of it that is spoken here."""
        fault = sys.exc_info()[1]  # uvicorn calls this while it handles h11's error
        log.warning("%s sent no HTTP that can be read: %.200s", self._address(), fault)
        if isinstance(fault, h11.RemoteProtocolError) and fault.error_status_hint == 431:
            self._end_with(HeadersTooLarge("The headers are too large; send fewer."))
            return
        self._end_with(BadRequest("This is no request of HTTP/1.1 that can be read in one way."))

    def _unsupported_upgrade_warning(self) -> None:
        log.warning("%s asked for another protocol, and is answered in HTTP.", self._address())

    def _address(self) -> str:
        return self.client[0] if self.client else "Somebody"

    def _watch_head(self) -> None:
        waiting = self.conn.their_state is h11.IDLE
        begun = waiting and bool(self.conn.trailing_data[0])
        if not waiting:
            self._forget_head()
        elif begun and self._head is None:
            self._head = self.loop.call_later(self.head_timeout_s, self._head_is_late)

    def _watch_answer(self) -> None:
        if self._answer is None:
            self._answer = self.loop.call_later(self.answer_timeout_s, self.transport.abort)

    def _is_idle(self) -> bool:
        working = self.cycle is not None and not self.cycle.response_complete
        return not working and not self.conn.trailing_data[0]

    def _end_half_closed(self) -> None:
        """End a connection on which nothing more can come, once all that came is answered."""
        if self.transport.is_closing():
            return
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
            self.scope["state"][ANSWER_NOW] = True
        elif self._is_idle():
            self.transport.close()
        else:
            self._end_with(BadRequest("The connection was closed before the request was whole."))

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_answer(self) -> None:
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def _head_is_late(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self._end_with(TooSlow("The request's headers did not come in time."))

    def _end_with(self, error: ServiceError) -> None:
        """Answer as the application would and close; nothing that follows is read."""
        if self.cycle and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # an answer is on its way: another one would end up inside it
            return
        answer = problems.answer(error)
        answer.headers.update({"Connection": "close"} | ALWAYS)
        lines = [b"HTTP/1.1 " + _STATUS_LINES[error.status_code]]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(answer.body))
        self.transport.close()


def _prepare(accepted: socket.socket) -> None:
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # Linux, macOS
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_B)
