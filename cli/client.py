"""Speaks with the service: every call of its HTTP API that the command line needs, typed."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import TypeAdapter

from cli.exits import Away, Exit, Stop
from cli.settings import token_for
from service.schemas import jobs as schemas
from service.schemas.access import NewToken, Problem
from service.schemas.annotations import AnnotationView
from service.schemas.catalog import Catalog
from service.schemas.outbox import DeliveryView
from service.schemas.thresholds import ThresholdView
from worker import http_exchange

_CONNECT_S = 5.0
_READ_S = 60.0
_WHOLE_S = 120.0
"""Limit of a whole answer; the service holds some for up to 30 s."""
_LARGEST_ANSWER_B = 32 * 2**20
"""Four times the largest trace, the largest answer that commands request."""
_API = "/api/v1"
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_BOUNDS = http_exchange.Bounds(_LARGEST_ANSWER_B, _WHOLE_S)
T = TypeVar("T")
Parameters = Mapping[str, str | int | float | None]


class ServiceClient:
    """A connection to one service; a context manager.

    Answers are bounded as a whole, in size and time: the address may be anybody's.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = _address(url)
        headers = {"Accept": "application/json"}
        if given := _token(self.url) if token is None else token:
            headers["Authorization"] = f"Bearer {given}"
        self._exchange = http_exchange.Exchange(
            f"{self.url}{_API}/", httpx2.Timeout(_READ_S, connect=_CONNECT_S), headers
        )

    def __enter__(self) -> Self:
        self._exchange.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.__exit__()

    def is_ready(self) -> bool:
        """Return True if a service that can work answers now."""
        try:
            return self._exchange.ask("GET", "health", _BOUNDS).status_code == 200
        except httpx2.HTTPError:
            return False

    def submit(self, request: Mapping[str, Any], key: str | None = None) -> schemas.Submitted:
        """Submit a suite or cases; the same ``key`` with the same request submits once."""
        return self.submit_once(request, key)[0]

    def submit_once(
        self, request: Mapping[str, Any], key: str | None
    ) -> tuple[schemas.Submitted, bool]:
        """Submit it, and say whether that was done before with this ``key``."""
        answer = self._send("POST", "submissions", json=request, headers=_once(key))
        return _read(schemas.Submitted, answer), answer.status_code == 200

    def submission(self, submission_id: str, wait_s: float = 0.0) -> schemas.SubmissionView:
        """A submission with its jobs, at once or when it has finished within ``wait_s``."""
        answer = self._get(f"submissions/{_named(submission_id)}", {"wait_s": wait_s or None})
        return _read(schemas.SubmissionView, answer)

    def submissions(
        self, **filters: str | int | None
    ) -> schemas.Listing[schemas.SubmissionSummary]:
        """Submissions, the newest first."""
        return _read(schemas.Listing[schemas.SubmissionSummary], self._get("submissions", filters))

    def jobs(self, **filters: str | int | None) -> schemas.Listing[schemas.JobView]:
        """One page of jobs."""
        return _read(schemas.Listing[schemas.JobView], self._get("jobs", filters))

    def job(self, job_id: str) -> schemas.JobView:
        """A job with its attempts."""
        return _read(schemas.JobView, self._get(f"jobs/{_named(job_id)}"))

    def cancel(self, job_id: str) -> schemas.JobView:
        """Cancel a job; one that is running stops at its worker's next heartbeat."""
        return _read(schemas.JobView, self._send("POST", f"jobs/{_named(job_id)}/cancel"))

    def report(self, submission_id: str, against: str | None = None, form: str = "json") -> str:
        """A submission's results, and the comparison with another revision, as text."""
        parameters = {"against": against, "format": form}
        return self._get(f"submissions/{_named(submission_id)}/report", parameters).text

    def trace(self, result_id: str) -> bytes:
        """The profiler's trace of a result, as it is kept."""
        return self._send("GET", f"results/{_named(result_id)}/trace", follows=True).content

    def comparison(
        self,
        baseline: str,
        contender: str,
        suite: str | None,
        project: str | None = None,
        metric: str | None = None,
        form: str = "json",
    ) -> str:
        """Two revisions, case by case, as text."""
        parameters = {
            "baseline": baseline,
            "contender": contender,
            "suite": suite,
            "project": project,
            "metric": metric,
            "format": form,
        }
        return self._get("changes", parameters).text

    def enroll(self, code: str, worker: str) -> str:
        """Turn an enrolment code into the token of a worker."""
        body = {"code": code, "worker": worker}
        return _read(NewToken, self._send("POST", "enrolments/redeem", json=body)).token

    def catalog(self) -> Catalog:
        """Fetch the catalog of what can be asked for."""
        return _read(Catalog, self._get("catalog"))

    def workers(self) -> schemas.Listing[schemas.WorkerView]:
        """Every worker, the last seen first."""
        return _read(schemas.Listing[schemas.WorkerView], self._get("workers"))

    def drain(self, name: str, body: Mapping[str, Any]) -> schemas.WorkerView:
        """Give a worker no further job."""
        return _read(
            schemas.WorkerView, self._send("PUT", f"workers/{_named(name)}/drain", json=body)
        )

    def resume(self, name: str) -> schemas.WorkerView:
        """Give a drained worker jobs again."""
        return _read(schemas.WorkerView, self._send("DELETE", f"workers/{_named(name)}/drain"))

    def schedules(self) -> schemas.Listing[schemas.ScheduleView]:
        """Every schedule."""
        return _read(schemas.Listing[schemas.ScheduleView], self._get("schedules"))

    def set_schedule(self, name: str, schedule: Mapping[str, Any]) -> schemas.ScheduleView:
        """Make a schedule, or replace it."""
        return _read(
            schemas.ScheduleView, self._send("PUT", f"schedules/{_named(name)}", json=schedule)
        )

    def delete_schedule(self, name: str) -> None:
        """Forget a schedule; what it has submitted stays."""
        self._delete(f"schedules/{_named(name)}")

    def thresholds(self) -> schemas.Listing[ThresholdView]:
        """Every threshold."""
        return _read(schemas.Listing[ThresholdView], self._get("thresholds"))

    def set_threshold(self, threshold: Mapping[str, Any]) -> ThresholdView:
        """Set the threshold of a scope, or replace it."""
        return _read(ThresholdView, self._send("PUT", "thresholds", json=threshold))

    def remove_threshold(self, threshold_id: str) -> None:
        """Remove a threshold."""
        self._delete(f"thresholds/{_named(threshold_id)}")

    def annotations(self, **filters: str | int | None) -> schemas.Listing[AnnotationView]:
        """One page of what people wrote beside histories."""
        return _read(schemas.Listing[AnnotationView], self._get("annotations", filters))

    def annotate(self, annotation: Mapping[str, Any]) -> AnnotationView:
        """Write beside histories."""
        return _read(AnnotationView, self._send("POST", "annotations", json=annotation))

    def remove_annotation(self, annotation_id: str) -> None:
        """Remove what somebody wrote."""
        self._delete(f"annotations/{_named(annotation_id)}")

    def deliveries(self, **filters: str | int | None) -> schemas.Listing[DeliveryView]:
        """One page of what was sent to the operator's sinks."""
        return _read(schemas.Listing[DeliveryView], self._get("outbox", filters))

    def test_sink(self, sink: str) -> DeliveryView:
        """Have a test sent to a sink."""
        return _read(DeliveryView, self._send("POST", "outbox/tests", json={"sink": sink}))

    def send_again(self, delivery_id: str) -> DeliveryView:
        """Send a dead letter again."""
        return _read(DeliveryView, self._send("POST", f"outbox/{_named(delivery_id)}/again"))

    def dismiss(self, delivery_id: str) -> DeliveryView:
        """Give a dead letter up."""
        return _read(DeliveryView, self._send("POST", f"outbox/{_named(delivery_id)}/dismiss"))

    def text(self, *path: str, **parameters: str | int | None) -> str:
        """Fetch an answer as text; the path's parts are names or ids."""
        return self._get("/".join(map(_named, path)), parameters).text

    def send_text(
        self, method: str, *path: str, body: object = None, key: str | None = None
    ) -> str:
        """Ask for a change; the answer as text. The same ``key`` changes once."""
        answer = self._send(method, "/".join(map(_named, path)), json=body, headers=_once(key))
        return answer.text

    def fire(self, name: str) -> schemas.Submitted:
        """Submit a schedule's suite now."""
        return _read(schemas.Submitted, self._send("POST", f"schedules/{_named(name)}/fire"))

    def _delete(self, path: str) -> None:
        answer = self._send("DELETE", path)
        if answer.status_code != 204:
            raise _foreign(self.url, answer)

    def _get(self, path: str, parameters: Parameters | None = None) -> httpx2.Response:
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        return self._send("GET", path, params=given)

    def _send(
        self, method: str, path: str, *, follows: bool = False, **what: Any
    ) -> httpx2.Response:
        """Send a request; anything but a success ends the command with one sentence."""
        bounds = replace(_BOUNDS, follows=follows)
        try:
            answer = self._exchange.ask(method, path, bounds, **what)
        except httpx2.ConnectError as error:
            raise Away(
                f"No Throughline service answers at {self.url}. "
                "Start one with `throughline serve`, or set THROUGHLINE_URL."
            ) from error
        except (httpx2.InvalidURL, UnicodeEncodeError) as error:
            raise Stop(
                "A name that was given is too long, or holds a character that names cannot have."
            ) from error
        except (http_exchange.TooLarge, http_exchange.TooSlow) as error:
            raise Away(
                f"What answers at {self.url} is no Throughline service, or one in trouble: {error}."
            ) from error
        except httpx2.HTTPError as error:
            raise Away(
                f"The service at {self.url} broke off ({type(error).__name__}): "
                "see its log, and try again."
            ) from error
        if not answer.is_success:
            raise _refusal(self.url, answer)
        if "html" in answer.headers.get("Content-Type", ""):  # a sign-in page, say
            raise _foreign(self.url, answer)
        return answer


def _address(url: str) -> str:
    """A service's address without the slash at its end."""
    try:
        address = httpx2.URL(url.rstrip("/"))
    except (httpx2.InvalidURL, UnicodeEncodeError) as error:
        raise Stop(f"{url!r} is no address of a service: {error}") from error
    port = 1 if address.port is None else address.port
    usual = (
        address.scheme in ("http", "https")
        and address.host
        and not (address.query or address.fragment)
    )
    if not (usual and 0 < port < 2**16):
        raise Stop(f"{url!r} is no address of a service, such as http://127.0.0.1:8765.")
    if address.path.endswith(_API):
        raise Stop(f"{url!r} is the address of the service's API: leave {_API} out.")
    return url.rstrip("/")


def _named(name: str) -> str:
    if name in ("", ".", "..") or "/" in name:
        raise Stop(f"{reprlib.repr(name)} is no id and no name: write one, and no path.")
    return quote(name, safe="", errors="surrogateescape")


def _once(key: str | None) -> dict[str, str]:
    """The header that makes a request count once."""
    if key is None:
        return {}
    if not _KEY.fullmatch(key):
        raise Stop(
            "--idempotency-key: write 1 to 200 letters, digits and signs of ASCII, without spaces."
        )
    return {"Idempotency-Key": key}


def _token(url: str) -> str:
    try:
        token = token_for(url)
    except OSError as error:
        raise Stop(
            f"The token file {error.filename} cannot be read ({error.strerror}): correct "
            "THROUGHLINE_TOKEN_FILE."
        ) from error
    if not (token.isascii() and token.isprintable()):
        raise Stop(
            "The token in THROUGHLINE_TOKEN, or in THROUGHLINE_TOKEN_FILE, is no token: it begins "
            "with tl_."
        )
    return token


def _read(model: type[T], answer: httpx2.Response) -> T:
    return read(model, answer.text)


def read(model: type[T], text: str) -> T:
    """Read an answer.

    Raises:
        Stop: it is not what this version expects.
    """
    try:
        answer: T = _adapter(model).validate_json(text)  # type: ignore[arg-type]
    except ValueError as error:
        raise Stop(
            "What the service answers is not what this version of throughline expects: "
            "update the command line or the service, so that both have one version.",
            Exit.AWAY,
        ) from error
    return answer


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def _refusal(url: str, answer: httpx2.Response) -> Stop:
    """The sentence of a problem document; other answers do not come from a Throughline service.

    A proxy answers 502 to 504 while the service is away, which may pass.
    """
    may_pass = answer.status_code >= 500 or answer.status_code == 429
    try:
        sentence = Problem.model_validate_json(answer.content).detail
    except ValueError:
        foreign = _foreign(url, answer)
        return Away(foreign.sentence) if may_pass else foreign
    return Away(sentence) if may_pass else Stop(sentence)


def _foreign(url: str, answer: httpx2.Response) -> Stop:
    return Stop(
        f"{url} answered {answer.status_code}, but not as a Throughline service does: "
        "check THROUGHLINE_URL.",
        Exit.AWAY,
    )
