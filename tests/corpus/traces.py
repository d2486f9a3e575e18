"""A trace, the only body that is no JSON: types, sizes, and files that are something else.

The held attempt has no result, so the best of traces is refused as well.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from builders.traces import a_trace_file
from corpus.case import GZIP, JSON, Case

from benchmarks.artifact_kinds import LIMIT_B

TARGET = "/jobs/{job}/attempts/{number}/trace"
_GOOD = a_trace_file()
_TYPES = (
    *(b"application/json", b"application/x-gzip", b"application/gzip2", b"xapplication/gzip"),
    *(b"application/gzip, application/json", b"", b"gzip", b"*/*"),
    *(b"application/x-www-form-urlencoded", b"multipart/form-data;boundary=a", b"text/plain"),
)


def cases() -> Iterator[Case]:
    """Every case of this file."""
    for name, body in _files():
        yield _case(name, body, 422)
    for name, body in _goods():
        yield _case(name, body, 409)
    for size in (LIMIT_B + 1, LIMIT_B + 2**20):
        yield _case(f"{size} bytes", _GOOD.ljust(size, b"\0"), 413)
    for kind in _TYPES:
        yield _case(f"as {kind!r}", _GOOD, 415, headers=((b"content-type", kind),))
    yield _case("without a type", _GOOD, 415, headers=())
    yield _case("two types", _GOOD, 415, headers=(GZIP, JSON))
    yield _case("no secret", _GOOD, 422, headers=(GZIP, (b"x-none", b"1")))
    yield _case("a foreign secret", _GOOD, 409, headers=(GZIP, (b"lease-secret", b"0" * 64)))
    for target in (f"/jobs/{'0' * 32}/attempts/1/trace", "/jobs/{job}/attempts/2/trace"):
        headers = (GZIP, (b"lease-secret", b"0" * 64))
        yield Case(f"trace: {target}", "POST", target, _GOOD, frozenset({404}), headers)
    for method in ("PUT", "PATCH"):
        yield Case(f"trace: {method}", method, TARGET, _GOOD, frozenset({405}), (GZIP,))
    elsewhere = ("/jobs", "/submissions", "/leases", TARGET.replace("trace", "result"))
    for target in ("/jobs/a/b/attempts/1/trace", TARGET + "/"):
        yield Case(f"trace: to {target}", "POST", target, _GOOD, frozenset({404}), (GZIP,))
    for target in elsewhere:
        yield Case(f"trace: to {target}", "POST", target, _GOOD, frozenset({415}), (GZIP,))


def _case(
    name: str, body: bytes, status: int, headers: tuple[tuple[bytes, bytes], ...] = (GZIP,)
) -> Case:
    return Case(f"trace: {name}", "POST", TARGET, body, frozenset({status}), headers)


def _files() -> Iterator[tuple[str, bytes]]:
    yield "nothing", b""
    yield "JSON that is not packed", b'{"traceEvents":[]}'
    yield "zlib without gzip's head", zlib.compress(b'{"traceEvents":[]}')
    yield "a zip", b"PK\x03\x04" + b"\0" * 30
    for end in (1, 2, 3, 9, 10, 11):
        yield f"the first {end} bytes", _GOOD[:end]
    yield "another method", b"\x1f\x8b\x07" + _GOOD[3:]
    yield "a reserved flag", _GOOD[:3] + b"\xe0" + _GOOD[4:]
    yield "a head without an end", _GOOD[:3] + b"\x08" + b"a" * 2**20
    yield "a broken block", _GOOD[:10] + b"\xff" * 100
    yield "something before it", b"\0" + _GOOD
    for what in (b"[]", b"null", b'"{}"', b"<html>", b"\xef\xbb\xbf{}", b"", b" " * 100 + b"{}"):
        yield f"{what[:20]!r} packed", gzip.compress(what, mtime=0)
    yield "blanks without end", gzip.compress(b" " * 2**26, mtime=0)
    empty_blocks = b"\0\0\0\xff\xff" * (2**20)
    yield "a million empty blocks", _GOOD[:10] + empty_blocks


def _goods() -> Iterator[tuple[str, bytes]]:
    """What is a trace as far as anybody looks; a bomb is one, and is never unpacked."""
    yield "a good one", _GOOD
    yield "a bomb", gzip.compress(b"{" + b" " * 2**26, mtime=0)
    yield "with something behind it", _GOOD + b"\0" * 100
    yield "without its end", _GOOD[:-8]
