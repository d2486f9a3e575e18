"""A small real HTTP service that speaks the worker's part of the API and can misbehave."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from benchmarks.contracts import Claim, Heartbeat, JobSpec, Lease, Result, Worker

SECRET = "5" * 64


@dataclass
class Miniature:
    """Its state is public: tests set it, and read what happened."""

    lease_s: float = 60.0
    heartbeat_s: float = 0.1
    away: bool = False
    """Take connections and close them without an answer."""
    deaf_to: str = ""
    """Close without an answer only what ends so."""
    hangs_at: str = ""
    """Take what ends so, and answer nothing until it is changed."""
    stranger: tuple[int, str] | None = None
    """Somebody else has the address, and gives this answer to everything."""
    stuck: bool = False
    """Take heartbeats and never answer them."""
    cancel: bool = False
    fenced: bool = False
    refuse: str = ""
    """Results that contain this are no valid ones."""
    fail_at: str = ""
    """Results that contain this meet a fault of the service's own."""
    forget_workers: bool = False
    lie: dict[str, object] = field(default_factory=dict)
    """What each lease says instead of the truth."""
    queue: list[JobSpec] = field(default_factory=list)
    leases: dict[str, Lease] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    beats: list[Heartbeat] = field(default_factory=list)
    results: list[bytes] = field(default_factory=list)
    traces: list[bytes] = field(default_factory=list)
    logs: list[bytes] = field(default_factory=list)
    lose: int = 0
    """Take so many traces and let the answers be lost behind a proxy."""
    released: list[str] = field(default_factory=list)
    requests: list[tuple[float, str]] = field(default_factory=list)
    url: str = ""

    def submit(self, workload: str, **more: object) -> JobSpec:
        spec = JobSpec.model_validate({"case": {"workload": workload}, "revision": "abc", **more})
        self.queue.append(spec)
        return spec

    def read(self) -> list[Result]:
        return [Result.model_validate_json(body) for body in self.results]

    def claim(self, claim: Claim) -> tuple[int, str]:
        if claim.worker not in self.workers:
            return problem(404, "This worker has not introduced itself.")
        until = time.monotonic() + claim.wait_s
        while claim.claim_id not in self.leases and not self.queue:
            if time.monotonic() >= until:
                return 204, ""
            time.sleep(0.01)
        if claim.claim_id not in self.leases:
            self.leases[claim.claim_id] = Lease(
                job_id=name_of(len(self.leases) + 1),
                group=name_of(len(self.leases) + 1),
                attempt=1,
                secret=SECRET,
                spec=self.queue.pop(0),
                lease_s=self.lease_s,
                heartbeat_s=self.heartbeat_s,
            )
        return 200, json.dumps(self.leases[claim.claim_id].model_dump(mode="json") | self.lie)

    def answer(self, path: str, secret: str | None, body: bytes) -> tuple[int, str]:
        parts = path.split("/")
        if parts[1] == "workers":
            worker = Worker.model_validate_json(body)
            self.workers[worker.name] = worker
            return 200, worker.model_dump_json()
        if parts[1] == "leases":
            if self.forget_workers:
                self.workers.clear()
                self.forget_workers = False
            return self.claim(Claim.model_validate_json(body))
        if secret != SECRET or self.fenced:
            return problem(409, "The attempt is not yours any more.")
        return getattr(self, f"_{parts[-1]}")(parts[2], body)

    def _start(self, job: str, body: bytes) -> tuple[int, str]:
        self.started.append(job)
        return 204, ""

    def _heartbeat(self, job: str, body: bytes) -> tuple[int, str]:
        while self.stuck:
            time.sleep(0.02)
        self.beats.append(Heartbeat.model_validate_json(body))
        return 200, json.dumps({"lease_s": self.lease_s, "cancel": self.cancel})

    def _result(self, job: str, body: bytes) -> tuple[int, str]:
        if self.fail_at and self.fail_at.encode() in body:
            return problem(500, "The service has a fault; see its log.")
        if self.refuse and self.refuse.encode() in body:
            return problem(422, "It is no valid Result.")
        new = body not in self.results
        if new:
            self.results.append(body)
        return (201 if new else 200), json.dumps({"id": job, "counted": True})

    def _trace(self, job: str, body: bytes) -> tuple[int, str]:
        self.traces.append(body)
        self.lose -= 1
        if self.lose >= 0:
            return 502, ""
        return 201, json.dumps({"result_id": job, "size_b": len(body)})

    def _log(self, job: str, body: bytes) -> tuple[int, str]:
        self.logs.append(body)
        return 201, json.dumps({"result_id": job, "size_b": len(body)})

    def _release(self, job: str, body: bytes) -> tuple[int, str]:
        self.released.append(json.loads(body)["reason"])
        return 204, ""


def name_of(number: int) -> str:
    """The id of a job by its number."""
    return f"{number:032x}"


def problem(status: int, detail: str) -> tuple[int, str]:
    return status, json.dumps({"type": "x", "title": "No", "status": status, "detail": detail})


def handler_of(service: Miniature) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # its sender was killed
                self.close_connection = True
                return
            path = self.path.removeprefix("/api/v1")
            service.requests.append((time.monotonic(), path))
            if service.away or (service.deaf_to and path.endswith(service.deaf_to)):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            while service.hangs_at and path.endswith(service.hangs_at):
                time.sleep(0.02)
            status, told = service.stranger or service.answer(
                path, self.headers.get("Lease-Secret"), body
            )
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(told.encode())))
            self.end_headers()
            if status != 204:
                self.wfile.write(told.encode())

        do_PUT = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A worker that is killed leaves a broken connection, and is meant to."""


@contextmanager
def serving(service: Miniature) -> Iterator[Miniature]:
    with Quiet(("127.0.0.1", 0), handler_of(service)) as server:
        service.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield service
        finally:
            service.stuck, service.hangs_at = False, ""
            server.shutdown()
            thread.join()


def eventually(true: Callable[[], object], limit_s: float = 15.0) -> None:
    """Wait until ``true()``; a deadline instead of a guess."""
    until = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)
