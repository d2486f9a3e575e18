"""A worker's calls to the service: typed, with errors that say what may be done next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

import httpx2
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from benchmarks import contracts
from benchmarks.artifact_kinds import GZIP, ArtifactKind
from worker.http_exchange import Bounds, Exchange, GoesOn, always

T = TypeVar("T")

LARGEST_ANSWER_B = 2**20
"""The largest answer to a worker is a lease; 64 labels of 564 characters are most of it."""
_AWAY = frozenset({401, 403, 408, 425, 429})
"""Client errors that time or an operator mends: results are kept and sent again."""


class _Problem(BaseModel):
    """A refusal by the service (RFC 9457); other answers are not the service's."""

    status: int
    detail: str


class _Introduced(BaseModel):
    """What the service says to an introduction, as far as a worker reads it."""

    list_range: contracts.CommitRange | None = None


class _Posted(BaseModel):
    """The service's word that it has a result for good."""

    id: contracts.Id
    counted: bool


class _Kept(BaseModel):
    """The service's word that it has an artifact for good."""

    result_id: contracts.Id


class ClientError(Exception):
    """A call did not do what it was meant to do."""


class ServiceAway(ClientError):
    """There was no usable answer, or it was not the service's: try again later."""


class Faulty(ServiceAway):
    """The service fails at this very request by its own fault, perhaps each time."""


class Fenced(ClientError):
    """The attempt is no longer this worker's: stop, its result will not count."""


class Refused(ClientError):
    """The service understood and said no: trying again would not help."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Ticket:
    """A worker's hold on one attempt at one job, with the secret that proves it."""

    job_id: contracts.Id
    attempt: int
    secret: contracts.Secret

    @classmethod
    def of(cls, lease: contracts.Lease) -> Ticket:
        """The ticket that came with ``lease``."""
        return cls(lease.job_id, lease.attempt, lease.secret)

    def __str__(self) -> str:
        """Without the secret, as a person needs it in a log."""
        return f"job {self.job_id} (attempt {self.attempt})"


@dataclass(frozen=True)
class _Call:
    """One request, and for how long its answer is awaited."""

    method: str
    path: str
    body: str | bytes | None = None
    kind: str = "application/json"
    secret: str | None = None
    whole_s: float | None = None


class ServiceClient:
    """One worker's connection to the service; a context manager, which several threads may use.

    ``timeout_s`` bounds each answer as a whole. ``token`` gives the token for each request; an
    empty one is not sent. Every call raises `ServiceAway`, `Fenced` or `Refused` without a good
    answer, and ends early once its ``goes_on`` returns False.
    """

    def __init__(self, url: str, timeout_s: float, token: Callable[[], str] = str) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._token = token
        self._registered = False
        try:
            self._exchange = Exchange(f"{self.url}/api/v1", timeout_s, {})
        except httpx2.InvalidURL as error:
            raise Refused(0, f"{self.url} is no usable service address: {error}.") from error

    def __enter__(self) -> Self:
        self._exchange.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.__exit__()

    def register(
        self, worker: contracts.Worker, goes_on: GoesOn = always
    ) -> contracts.CommitRange | None:
        """Introduce this worker, or renew what the service knows of it.

        Return the commits that it is to list, if any.
        """
        call = _Call("PUT", f"/workers/{worker.name}", worker.model_dump_json())
        answer = self._send(call, goes_on)
        self._registered = True
        return self._read(answer, _Introduced).list_range

    def claim(self, claim: contracts.Claim, goes_on: GoesOn = always) -> contracts.Lease | None:
        """Ask for a job; None when there is none for this worker."""
        whole_s = claim.wait_s + self._timeout_s
        call = _Call("POST", "/leases", claim.model_dump_json(), whole_s=whole_s)
        answer = self._send(call, goes_on)
        return None if answer.status_code == 204 else self._read(answer, contracts.Lease)

    def start(self, ticket: Ticket, goes_on: GoesOn = always) -> None:
        """Say that the job is being run."""
        self._send(_for(ticket, "start"), goes_on)

    def heartbeat(
        self, ticket: Ticket, beat: contracts.Heartbeat, timeout_s: float, goes_on: GoesOn = always
    ) -> contracts.Renewal:
        """Renew the lease."""
        call = _for(ticket, "heartbeat", beat.model_dump_json(), whole_s=timeout_s)
        return self._read(self._send(call, goes_on), contracts.Renewal)

    def post_result(self, ticket: Ticket, body: bytes, goes_on: GoesOn = always) -> None:
        """Deliver a result; returns once the service has it for good."""
        self._post(_for(ticket, "result", body), _Posted, goes_on)

    def post_artifact(
        self, ticket: Ticket, kind: ArtifactKind, body: bytes, goes_on: GoesOn = always
    ) -> None:
        """Deliver the trace or log of a result; returns once the service has it for good."""
        self._post(_for(ticket, kind.value, body, kind=GZIP), _Kept, goes_on)

    def release(self, ticket: Ticket, reason: str, goes_on: GoesOn = always) -> None:
        """Give the job back unharmed, so that another worker may have it at once."""
        body = TypeAdapter(dict[str, str]).dump_json({"reason": reason})
        self._send(_for(ticket, "release", body), goes_on)

    def _post(self, call: _Call, promise: type[BaseModel], goes_on: GoesOn) -> None:
        answer = self._send(call, goes_on)
        try:
            promise.model_validate_json(answer.content)
        except ValidationError as error:
            raise ServiceAway(self._stranger(answer)) from error

    def _send(self, call: _Call, goes_on: GoesOn) -> httpx2.Response:
        headers = {"Content-Type": call.kind} if call.body is not None else {}
        if token := self._shown():
            headers["Authorization"] = f"Bearer {token}"
        if call.secret is not None:
            headers["Lease-Secret"] = call.secret
        bounds = Bounds(LARGEST_ANSWER_B, call.whole_s or self._timeout_s, goes_on)
        try:
            answer = self._exchange.ask(
                call.method, call.path, bounds, content=call.body, headers=headers
            )
        except httpx2.UnsupportedProtocol as error:
            sentence = f"{self.url} is no service address: it must begin with http:// or https://."
            raise Refused(0, sentence) from error
        except (httpx2.HTTPError, OSError) as error:
            raise ServiceAway(self._why(error)) from error
        return self._checked(answer)

    def _shown(self) -> str:
        try:
            token = self._token()
        except OSError as error:
            sentence = f"The token file {error.filename} cannot be read ({error.strerror})."
            raise ServiceAway(sentence) from error
        if not (token.isascii() and token.isprintable()):
            sentence = "The worker's token is no token: it begins with tl_."
            # The file may be half written. A worker that has registered may hold a result: it
            # waits.
            raise ServiceAway(sentence) if self._registered else Refused(0, sentence)
        return token

    def _checked(self, answer: httpx2.Response) -> httpx2.Response:
        """The answer, if it is the service's and good.

        A captive portal or a proxy must neither take a result nor refuse it. Only a success that is
        204 or JSON, and a refusal that is a problem document, are the service's own.
        """
        if answer.status_code == 204 or (answer.is_success and _is_object(answer)):
            return answer
        problem = _problem(answer)
        if answer.is_success or answer.is_redirect or problem is None:
            raise ServiceAway(self._stranger(answer))
        sentence = problem.detail[:500] or f"status {answer.status_code}"
        if answer.status_code >= 500 or answer.status_code in _AWAY:
            kind = Faulty if answer.status_code == 500 else ServiceAway
            raise kind(f"{self.url} answers {answer.status_code}: {sentence}")
        if answer.status_code == 409:
            raise Fenced(sentence)
        raise Refused(answer.status_code, sentence)

    def _read(self, answer: httpx2.Response, kind: type[T]) -> T:
        try:
            return TypeAdapter(kind).validate_json(answer.content)
        except ValidationError as error:
            raise Refused(
                answer.status_code,
                f"{self.url} answered with something that is no {kind.__name__}: check the "
                "address, and that worker and service are of the same version.",
            ) from error

    def _stranger(self, answer: httpx2.Response) -> str:
        return (
            f"{self.url} answers {answer.status_code}, but not as a Throughline service does: "
            "see what stands before the service, and check THROUGHLINE_URL."
        )

    def _why(self, error: Exception) -> str:
        detail = str(error) or type(error).__name__
        return f"The service at {self.url} does not answer ({detail})."


def _for(
    ticket: Ticket,
    verb: str,
    body: str | bytes | None = None,
    kind: str = "application/json",
    whole_s: float | None = None,
) -> _Call:
    """Build a request about one attempt."""
    path = f"/jobs/{ticket.job_id}/attempts/{ticket.attempt}/{verb}"
    return _Call("POST", path, body, kind, ticket.secret, whole_s)


def _problem(answer: httpx2.Response) -> _Problem | None:
    try:
        problem = _Problem.model_validate_json(answer.content)
    except ValidationError:
        return None
    return problem if problem.status == answer.status_code else None


def _is_object(answer: httpx2.Response) -> bool:
    try:
        return isinstance(from_json(answer.content), dict)
    except ValueError:
        return False
