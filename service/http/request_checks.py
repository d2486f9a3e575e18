"""Checks of a request's line and headers, before its body: each is readable in one way only."""

from __future__ import annotations

import re
from collections import Counter
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from benchmarks.trace_file import GZIP
from service.errors import (
    AddressTooLong,
    BadRequest,
    HeadersTooLarge,
    NoTrace,
    WrongMediaType,
)

ADDRESS_B = 8_192
"""Path and query as sent."""
HEADERS = 100
HEADERS_B = 16_384
"""All names and values, with four bytes for each header's punctuation."""
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_VERSIONS = ("1.0", "1.1", "2", "3")
_ONCE = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"host",
        b"idempotency-key",
        b"lease-secret",
        b"transfer-encoding",
    }
)
"""Headers that mean something here; of two, proxy and service might each believe another."""
_JSON = ("application/json", "application/json;charset=utf-8", 'application/json;charset="utf-8"')
_FORM = ("application/x-www-form-urlencoded",)
_API = "/api/"
_TRACE = re.compile(r"/api/v1/jobs/[^/]+/attempts/[^/]+/trace")
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

Headers = dict[bytes, bytes]


def read(scope: Scope) -> Headers:
    """Check a request's line and headers; give the headers by lower-case name.

    Raises:
        BadRequest: something is there twice, or contradicts itself, or is no UTF-8.
        AddressTooLong: path and query together.
        HeadersTooLarge: too many, or too large together.
        WrongMediaType: the body is compressed.
    """
    if scope["http_version"] not in _VERSIONS:
        raise BadRequest("This version of HTTP is not spoken here; use HTTP/1.1.")
    _check_address(scope)
    headers = _headers(scope["headers"])
    _check_framing(scope["http_version"], headers)
    if length_of(headers):
        check_method(scope["method"])
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise WrongMediaType("The body is compressed; send it as it is, without Content-Encoding.")
    return headers


def length_of(headers: Headers) -> int:
    """Return the size of the body as the headers say it, in bytes; 0 if they do not say."""
    return int(headers.get(b"content-length", b"0"))


def is_small(headers: Headers, most_b: int) -> bool:
    """Return True if the body on its way has at most ``most_b`` bytes, as the headers say.

    A client that asks whether it may send (``Expect``) has no body on its way.
    """
    chunked, asks = b"transfer-encoding" in headers, b"expect" in headers
    return length_of(headers) <= most_b and not chunked and not asks


def check_method(method: str) -> None:
    """Make sure that a method takes a body.

    Raises:
        BadRequest: it takes none.
    """
    if method not in _WITH_BODY:
        raise BadRequest("This method takes no body; leave it out.")


def takes_trace(path: str) -> bool:
    """Return True if the call at ``path`` takes a trace, the one body neither JSON nor a form."""
    return _TRACE.fullmatch(path) is not None


def check_media_type(path: str, headers: Headers) -> bool:
    """Return True if the body is JSON; a form is allowed outside the API, and a trace by one call.

    Raises:
        WrongMediaType: it is none of these, or not what this call takes.
    """
    said = headers.get(b"content-type", b"").decode("latin-1").lower().replace(" ", "")
    if takes_trace(path):
        if said != GZIP:
            raise NoTrace(f"The body must be a trace: send Content-Type: {GZIP}.")
        return False
    if said in _JSON:
        return True
    if said.partition(";")[0] in _FORM and not path.startswith(_API):
        return False
    raise WrongMediaType("The body must be JSON in UTF-8: send Content-Type: application/json.")


def _check_address(scope: Scope) -> None:
    path: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    query: bytes = scope["query_string"]
    if len(path) + len(query) > ADDRESS_B:
        raise AddressTooLong("The address is too long; shorten its names or its query.")
    try:
        decoded = unquote_to_bytes(path + query).decode()
    except UnicodeDecodeError:
        raise BadRequest("The address is not UTF-8 when its %-escapes are resolved.") from None
    if "\0" in decoded:
        raise BadRequest("The address holds the character U+0000; leave it out.")
    if scope["path"].startswith(_API):
        _check_parameters(query)


def _check_parameters(query: bytes) -> None:
    names = [unquote_to_bytes(part.partition(b"=")[0]) for part in query.split(b"&") if part]
    if len(set(names)) < len(names):
        raise BadRequest("A parameter of the query is there twice; give each once.")


def _headers(listed: list[tuple[bytes, bytes]]) -> Headers:
    if len(listed) > HEADERS or sum(len(n) + len(v) + 4 for n, v in listed) > HEADERS_B:
        raise HeadersTooLarge("The headers are too many or too large; send fewer.")
    if _CONTROLS.search(b"".join(value for _, value in listed)):
        raise BadRequest("A header's value holds a control character.")
    times = Counter(name for name, _ in listed)
    if any(times[name] > 1 for name in _ONCE):
        raise BadRequest("A header that may be there once is there twice.")
    return dict(listed)


def _check_framing(version: str, headers: Headers) -> None:
    if b"transfer-encoding" in headers:
        # RFC 9112, 6.1 and 6.3: signs of request smuggling, which a server may refuse.
        if b"content-length" in headers:
            raise BadRequest("Give the body's length or send it in chunks, not both.")
        if version == "1.0":
            raise BadRequest("HTTP/1.0 knows no chunks; give the body's length.")
    length = headers.get(b"content-length", b"0")
    if not (length.isdigit() and len(length) <= 18):
        raise BadRequest("Content-Length must be a plain number.")
