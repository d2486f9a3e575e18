"""What comes before a body: paths, queries, headers, media types and methods."""

from __future__ import annotations

from collections.abc import Iterator

from corpus.case import JSON, SUBMISSION, Case

_BROKEN = (
    *("%ff", "%80", "%c0%af", "%c0%80", "%ed%a0%80", "%ed%bf%bf", "%f4%90%80%80", "%e2%82", "%fe"),
    *("%f8%88%80%80%80", "%c3%28", "a%ffb", "%ed%a0%bd%ed%b8%80", "%C1%81", "%bf", "%f0%9f%98"),
)
_NUL = ("%00", "a%00", "%00a", "a%00b", "%2500%00", "%00%00", "..%00.html")
_NAMES = (
    *("x", "..", "%2e%2e", "%2e%2e%2f", "..%2f..%2f", "%5c", "%0a", "%0d%0a", "%7f", "%1b%5b31m"),
    *(
        "'%20OR%201=1--",
        "%27%3b%20DROP",
        "%22",
        "%3Cscript%3E",
        "%",
        "%zz",
        "%u0041",
        "%f0%9f%98%80",
    ),
    *(
        "a" * 200,
        "a" * 201,
        "a" * 2_000,
        "%e2%80%ae",
        "%ef%bb%bf",
        "-1",
        "0",
        "null",
        "~",
        "*",
        "%25",
    ),
)
_COLLECTIONS = ("jobs", "submissions", "results", "series", "environments", "schedules")
_NO_NUMBERS = (
    *(
        "",
        "-1",
        "0",
        "1.5",
        "1e2",
        "0x10",
        "501",
        "1_0",
        "%2B5",
        "%205",
        "5%20",
        "05e0",
        "%D9%A3",
        "nan",
        "inf",
        "true",
        "null",
    ),
    *("9" * 30, "9" * 5_000, "1,5", "[1]", "2%00", "--1", "1%2F2", "%EF%BC%91"),
)
_CURSORS = (
    *(
        "",
        "AAAA",
        "e30",
        "W10",
        "WzFd",
        "WyJhIiwiYiJd",
        "bnVsbA",
        "%FF",
        "a",
        "====",
        "WyJcdTAwMDAiXQ",
    ),
    *("WyJcdWQ4MDAiXQ", "!!!!", "W1tbW1tbW1tb", "%20", "A" * 2_000, "A" * 2_001),
)
_TYPES = (
    *(b"text/plain", b"text/json", b"application/x-www-form-urlencoded", b"multipart/form-data"),
    *(b"application/xml", b"application/json5", b"application/x-json", b"application/hal+json"),
    *(
        b"application/problem+json",
        b"application/jsonl",
        b"json",
        b"",
        b"/",
        b"*/*",
        b"application/*",
    ),
    *(b"application", b"application/json, text/plain", b";"),
    *(b"text/html; application/json", b"application/jsonx"),
    *(b"application/octet-stream", b"application/cbor", b"application/json\xe9", b"\xff\xfe"),
)
_GOOD_TYPES = (
    *(b"application/json", b"APPLICATION/JSON", b"application/json; charset=utf-8"),
    *(
        b"application/json;charset=UTF-8",
        b'application/json; charset="utf-8"',
        b" application/json ",
        b"application/json; charset=utf-16",
    ),
)
_SECRETS = (
    *(
        b"",
        b"0" * 63,
        b"0" * 65,
        b"0" * 64 + b" 0",
        b"g" * 64,
        b"A" * 64,
        b"\xff" * 64,
        b"' OR 1=1",
    ),
    *(
        b"0" * 10_000,
        b"null",
        b"0x" + b"0" * 62,
        "\u0660".encode() * 64,
        b"0" * 32 + b"\t" + b"0" * 31,
    ),
)
_KEYS = (b"", b"\x7f", b"a" * 201, b"a b", b"\xe9", b"a\tb", "\u20ac".encode(), b"a\x80b")


def cases() -> Iterator[Case]:
    """Every case of this file."""
    yield from _paths()
    yield from _queries()
    yield from _media()
    yield from _headers()
    yield from _methods()


def _case(name: str, method: str, target: str, *expected: int, **more: object) -> Case:
    return Case(name, method, target, expected=frozenset(expected), headers=(), **more)  # type: ignore[arg-type]


def _paths() -> Iterator[Case]:
    for noun in _COLLECTIONS:
        for text in _NUL:
            yield _case(f"the path /{noun}/{text}", "GET", f"/{noun}/{text}", 400)
        for text in (*_BROKEN, *_NAMES):
            yield _case(f"the path /{noun}/{text[:40]}", "GET", f"/{noun}/{text}", 404, 422)
    for text in _NUL:
        yield _case(f"cancel {text}", "POST", f"/jobs/{text}/cancel", 400)
        yield _case(f"start {text}", "POST", f"/jobs/{text}/attempts/1/start", 400)
        yield _case(f"forget {text}", "DELETE", f"/schedules/{text}", 400)
    for text in (*_BROKEN, *_NAMES):
        yield _case(f"cancel {text[:40]}", "POST", f"/jobs/{text}/cancel", 404, 422)
        yield _case(f"forget {text[:40]}", "DELETE", f"/schedules/{text}", 404, 422)
    for text in (*_NO_NUMBERS[1:12], "2147483648", "99999999999999999999"):
        path = f"/jobs/x/attempts/{text}/start"
        yield _case(f"the attempt {text}", "POST", path, 404, 422)
    for length in (8_192, 20_000, 60_000):
        yield _case(f"a path of {length}", "GET", "/jobs/" + "a" * length, 422)
        yield _case(f"a query of {length}", "GET", "/jobs?cursor=" + "a" * length, 422)


def _queries() -> Iterator[Case]:
    lists = ("jobs", "submissions", "results", "series")
    for noun in lists:
        for text in (*_BROKEN, *_NUL):
            refused = 400 if "%00" in text else 422
            yield _case(f"{noun}, cursor {text}", "GET", f"/{noun}?cursor={text}", refused)
            yield _case(f"{noun}, a parameter {text}", "GET", f"/{noun}?{text}=1", refused)
        for text in _NO_NUMBERS:
            refused = 400 if "%00" in text else 422
            yield _case(f"{noun}, limit {text[:20]}", "GET", f"/{noun}?limit={text}", refused)
        for text in _CURSORS:
            yield _case(f"{noun}, cursor {text[:20]!r}", "GET", f"/{noun}?cursor={text}", 422)
        for name in (
            "Limit",
            "limit%20",
            "limits",
            "offset",
            "page",
            "",
            "limit[]",
            "_",
            "%6Cimits",
        ):
            yield _case(f"{noun}, parameter {name!r}", "GET", f"/{noun}?{name}=1", 422)
        yield _case(f"{noun}, one limit of two", "GET", f"/{noun}?limit=0&limit=1", 200)
        yield _case(f"{noun}, one", "GET", f"/{noun}?limit=1", 200)
        yield _case(f"{noun}, the most", "GET", f"/{noun}?limit=500", 200)
    for text in ("lost", "QUEUED", "queued%20", "queued,leased", "", "0", "%71ueued%0a"):
        yield _case(f"state {text}", "GET", f"/jobs?state={text}", 422)
    for text in ("a%20b", "-a", "%F0%9F%98%80", "a" * 101, "", "'", "a%0Ab", "..%2F"):
        yield _case(f"revision {text[:20]}", "GET", f"/jobs?revision={text}", 422)
        both = f"/changes?baseline={text}&contender=r"
        yield _case(f"baseline {text[:20]}", "GET", both, 422)
    for text in (
        "nan",
        "inf",
        "-1",
        "31",
        "",
        "1e400",
        "x",
        "NaN",
        "Infinity",
        "0x1",
    ):
        yield _case(f"wait {text}", "GET", f"/submissions/x?wait_s={text}", 422)


def _media() -> Iterator[Case]:
    for target in ("/submissions", "/jobs", "/leases"):
        for value in _TYPES:
            head = ((b"content-type", value),)
            yield Case(f"{target} as {value!r}", "POST", target, SUBMISSION, _of(415), head)
        yield Case(f"{target} as nothing", "POST", target, SUBMISSION, _of(415), ())
        other = (JSON, (b"content-type", b"text/plain"))
        yield Case(f"{target} as two types", "POST", target, SUBMISSION, _of(415), other)
    for value in _GOOD_TYPES:
        head = ((b"content-type", value),)
        yield Case(f"a job as {value!r}", "POST", "/submissions", SUBMISSION, _of(201), head)


def _headers() -> Iterator[Case]:
    for value in _SECRETS:
        head = ((b"lease-secret", value),)
        path = "/jobs/{job}/attempts/{number}/start"
        yield Case(f"the secret {value[:20]!r}", "POST", path, b"", _of(422), head)
    path = "/jobs/{job}/attempts/{number}/start"
    yield Case("no secret", "POST", path, b"", _of(422), ())
    yield Case("a wrong secret", "POST", path, b"", _of(409), ((b"lease-secret", b"0" * 64),))
    for value in _KEYS:
        head = (JSON, (b"idempotency-key", value))
        yield Case(f"the key {value[:20]!r}", "POST", "/submissions", SUBMISSION, _of(422), head)
    both = (JSON, (b"content-length", b"5"), (b"transfer-encoding", b"chunked"))
    yield Case("length and chunks", "POST", "/submissions", SUBMISSION, _of(400), both)


def _methods() -> Iterator[Case]:
    for method in ("PATCH", "TRACE", "CONNECT", "PROPFIND", "BREW", "get", "Post", "OPTIONS"):
        yield _case(f"{method} on jobs", method, "/jobs", 405)
    for method in ("PUT", "DELETE"):
        yield _case(f"{method} on jobs", method, "/jobs", 405)
    for target in ("/jobs", "/health", "/schedules/corpus", "/series"):
        for method in ("GET", "DELETE", "OPTIONS", "HEAD"):
            name = f"{method} {target} with a body that nobody reads"
            yield Case(name, method, target, b"{}", _of(200, 204, 404, 405))
    for target in (
        "/nothing",
        "/",
        "",
        "//jobs",
        "/jobs//",
        "/Jobs",
        "/jobs/x/attempts",
        "/../jobs",
    ):
        yield _case(f"nothing at {target!r}", "GET", target, 404)


def _of(*statuses: int) -> frozenset[int]:
    return frozenset(statuses)
