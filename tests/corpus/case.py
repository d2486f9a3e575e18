"""What the corpus is made of: a request, byte for byte, and what must become of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

ACCEPTED = frozenset({200, 201, 204})
JSON = (b"content-type", b"application/json")
GZIP = (b"content-type", b"application/gzip")


@dataclass(frozen=True)
class Case:
    """One request to the application.

    ``expected`` are the statuses that will do: mostly one. ``reads_back`` is the value that an
    accepted request stored, and must be found in it again, equal in value and in type.
    """

    name: str
    method: str
    target: str
    """Path and query below ``/api/v1``, written as they are sent. ``{job}`` and ``{number}`` stand
    for an attempt that is held."""
    body: bytes = b""
    expected: frozenset[int] = field(default_factory=lambda: frozenset({400}))
    headers: tuple[tuple[bytes, bytes], ...] = (JSON,)
    reads_back: Any = None

    @property
    def accepted(self) -> bool:
        """Whether the request may change something."""
        return bool(self.expected & ACCEPTED)

    @property
    def request(self) -> tuple[object, ...]:
        """What is sent; two cases with the same are one."""
        return self.method, self.target, self.body, self.headers


@dataclass(frozen=True)
class Hole:
    """A well-formed document with one place in it where a value is missing."""

    name: str
    method: str
    target: str
    before: bytes
    after: bytes

    def case(self, name: str, value: bytes, *expected: int, reads_back: Any = None) -> Case:
        """Fill the hole."""
        return Case(
            f"{self.name}: {name}",
            self.method,
            self.target,
            self.before + value + self.after,
            refused(expected),
            reads_back=reads_back,
        )


def refused(expected: Iterable[int]) -> frozenset[int]:
    """What is malformed may be refused by the parser (400) or by the model (422)."""
    return frozenset({*expected, 422} if 400 in expected else expected)


def hole(name: str, method: str, target: str, document: bytes) -> Hole:
    """A document in which ``@`` is the hole."""
    before, _, after = document.partition(b"@")
    return Hole(name, method, target, before, after)


_ATTEMPT = "/jobs/{job}/attempts/{number}"
LABEL = hole("label", "PUT", "/workers/corpus", b'{"name":"corpus","labels":{"note":@}}')
REQUIRED = hole(
    *("requirement", "POST", "/submissions"),
    b'{"revision":"r","case":{"workload":"unet"},"requires":{"note":@}}',
)
TIMEOUT = hole(
    *("timeout_s", "POST", "/jobs"),
    b'{"revision":"r","case":{"workload":"unet"},"timeout_s":@}',
)
PRIORITY = hole(
    *("priority", "POST", "/jobs"), b'{"revision":"r","case":{"workload":"unet"},"priority":@}'
)
THROUGHPUT = hole(
    *("throughput", "POST", f"{_ATTEMPT}/heartbeat"),
    b'{"progress":{"phase":"full","throughput":@}}',
)
STEP = hole(*("step", "POST", f"{_ATTEMPT}/heartbeat"), b'{"progress":{"phase":"full","step":@}}')
WAIT = hole(
    *("wait_s", "POST", "/leases"),
    b'{"worker":"nobody","claim_id":"' + b"a" * 32 + b'","wait_s":@}',
)
WHOLE = hole("whole body", "POST", "/submissions", b"@")

SUBMISSION = (
    b'{"revision": "r-1", "case": {"workload": "resnet50", "preset": "tiny", "axes": '
    b'{"precision": "bf16"}}, "requires": {"device": "cuda"}, "priority": 3, "timeout_s": 60.5}'
)
WORKER = b'{"name": "corpus", "labels": {"device": "cpu", "rack": "b"}, "version": "1.0"}'
SCHEDULE = b'{"cron": "0 2 * * *", "suite": "smoke", "timezone": "UTC", "enabled": false}'
BEAT = b'{"progress": {"replicate": 1, "phase": "full", "step": 5, "fraction": 0.5}}'
DOCUMENTS = {
    "submission": ("POST", "/submissions", SUBMISSION),
    "worker": ("PUT", "/workers/corpus", WORKER),
    "schedule": ("PUT", "/schedules/corpus", SCHEDULE),
    "beat": ("POST", f"{_ATTEMPT}/heartbeat", BEAT),
}


def of_document(kind: str, name: str, body: bytes, *expected: int) -> Case:
    """Another body for the call of one of the documents above."""
    method, target, _ = DOCUMENTS[kind]
    return Case(f"{kind}: {name}", method, target, body, refused(expected))
