"""HTTP's own framing, on a real socket: lines, headers, lengths, chunks, and clients that wait.

Each case is what one connection sends, and the statuses that must come back on it before it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corpus.case import SUBMISSION

_GET = b"GET /api/v1/schedules HTTP/1.1\r\n"
_HOST = b"Host: x\r\n"
_END = b"Connection: close\r\n\r\n"
_POST = b"POST /api/v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_LENGTH = b"Content-Length: %d\r\n" % len(SUBMISSION)
_HIDDEN = b"DELETE /api/v1/schedules/nightly HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""A request within another's body: if it is carried out, the schedule is gone."""
_NO_TOKEN = b'\0\x01\x08\x0b\x1f\x7f\x80\xff "(),/:;<=>?@[\\]{}'
_GONE = ((), (400,))
"""A client that leaves before its request is whole is told nothing, or that it was not whole."""
_CHUNKED = b"Transfer-Encoding: chunked\r\n"


@dataclass(frozen=True)
class Line:
    """What one connection sends, whether it then says that it is done, and what it is told."""

    name: str
    raw: bytes
    expected: tuple[tuple[int, ...], ...]
    """Every sequence of statuses that will do."""
    half_closed: bool = False


def cases() -> Iterator[Line]:
    """Every case of this file."""
    yield from _good()
    yield from _request_lines()
    yield from _header_lines()
    yield from _sizes()
    yield from _lengths()
    yield from _codings()
    yield from _chunks()
    yield from _waiting()
    yield from _several()


def _line(name: str, raw: bytes, *statuses: int, half_closed: bool = False) -> Line:
    """A case with one answer, which may have any of ``statuses``; without one, none at all."""
    expected = tuple((status,) for status in statuses) or ((),)
    return Line(name, raw, expected, half_closed)


def _good() -> Iterator[Line]:
    yield _line("a request", _GET + _HOST + _END, 200)
    yield _line("HTTP/1.0", b"GET /api/v1/schedules HTTP/1.0\r\n\r\n", 200)
    yield _line("a body with its length", _POST + _LENGTH + _END + SUBMISSION, 201)
    chunk = b"%x\r\n" % len(SUBMISSION) + SUBMISSION + b"\r\n0\r\n\r\n"
    yield _line("a body in a chunk", _POST + _CHUNKED + _END + chunk, 201)
    bytewise = b"".join(b"1\r\n%c\r\n" % byte for byte in SUBMISSION) + b"0\r\n\r\n"
    yield _line("a body in chunks of a byte", _POST + _CHUNKED + _END + bytewise, 201)
    extended = chunk.replace(b"\r\n", b';a=b;c="d"\r\n', 1)
    yield _line("a chunk with an extension", _POST + _CHUNKED + _END + extended, 201)
    trailed = chunk[:-2] + b"X-Sum: 1\r\n\r\n"
    yield _line("chunks with a trailer", _POST + _CHUNKED + _END + trailed, 201)
    spaced = b"Content-Length:   %d  \r\n" % len(SUBMISSION)
    yield _line("a length within spaces", _POST + spaced + _END + SUBMISSION, 201)
    upper = b"TRANSFER-ENCODING:\tCHUNKED\r\n"
    yield _line("chunks in capitals", _POST + upper + _END + chunk, 201)
    expecting = _POST + _LENGTH + b"Expect: 100-continue\r\n" + _END + SUBMISSION
    yield Line("a client that asks first", expecting, ((201,), (100, 201)))
    for upgrade in (b"websocket", b"h2c", b"TLS/1.0"):
        asked = b"Connection: Upgrade, close\r\nUpgrade: " + upgrade + b"\r\n\r\n"
        yield _line(f"an upgrade to {upgrade.decode()}", _GET + _HOST + asked, 200)


def _request_lines() -> Iterator[Line]:
    lines = (
        *(b"", b" ", b"GET", b"GET ", b"GET /", b"GET / ", b"GET / HTTP", b"GET / HTTP/", b"/"),
        *(b"GET / HTTP/1", b"GET / HTTP/1.", b"GET / HTTP/.1", b"GET / HTTP/1.1.1", b"GET / 1.1"),
        *(b"GET / HTTP/11.1", b"GET / HTTP/1,1", b"GET / HTTP/a.b", b"GET / HTTP /1.1", b"\xff"),
        *(b"GET / http/1.1", b"GET / HTTPS/1.1", b"GET / HTTP/1.1 x", b"GET  / HTTP/1.1", b"GET\0"),
        *(b"GET /  HTTP/1.1", b"GET\t/\tHTTP/1.1", b" GET / HTTP/1.1", b"GET /a b HTTP/1.1", b"-"),
        *(b"GET /\0 HTTP/1.1", b"GET /\xff HTTP/1.1", b"GET /\x01 HTTP/1.1", b"GET /\t HTTP/1.1"),
        *(b"G@T / HTTP/1.1", b"G\0T / HTTP/1.1", b"(GET) / HTTP/1.1", b"G,T / HTTP/1.1", b"GET:/"),
        *(b"HTTP/1.1 200 OK", b"SSH-2.0-OpenSSH_9.9", b"EHLO x", b"\x16\x03\x01\x02\x00\x01\x00"),
        *(b"{}", b"\r"),
        *(b"GET /\x7f HTTP/1.1", "GET /é HTTP/1.1".encode(), "GÉT / HTTP/1.1".encode(), b"\0" * 9),
    )
    for line in lines:
        yield _line(f"the request line {line!r}", line + b"\r\n" + _HOST + _END, 400)
    for version in (b"0.9", b"1.2", b"2.0", b"9.9"):
        line = _GET.replace(b"1.1", version)
        yield _line(f"HTTP/{version.decode()}", line + _HOST + _END, 200, 400)
    for target in (b"*", b"http://x/api/v1/schedules", b"x:443", b"api/v1/schedules", b"//x/y"):
        for method in (b"GET", b"OPTIONS", b"CONNECT", b"TRACE"):
            raw = method + b" " + target + b" HTTP/1.1\r\n" + _HOST + _END
            yield _line(f"{method.decode()} {target.decode()}", raw, 400, 404, 405)


def _header_lines() -> Iterator[Line]:
    for line in (
        *(
            b"X",
            b"X 1",
            b":",
            b": 1",
            b"X : 1",
            b"X\t: 1",
            b"X\0: 1",
            b"X: \0",
            b"X: a\0b",
        ),
        *(b"X: a\rb", b"X: a\x0bb", b"X: a\x0cb", b"X;1"),
        *(b"\xffX: 1", b"X\xff: 1", b"X\r: 1", b"\rX: 1", b"GET / HTTP/1.1", b"{}", b"X=1", b"\0"),
    ):
        yield _line(f"the header line {line!r}", _GET + _HOST + line + b"\r\n" + _END, 400)
    for byte in _NO_TOKEN:
        if byte == ord(":"):
            continue
        name = b"X" + bytes([byte]) + b"Y"
        yield _line(f"a header named {name!r}", _GET + _HOST + name + b": 1\r\n" + _END, 400)
    yield _line("a first header that goes on", _GET + b" x: 1\r\n" + _HOST + _END, 400)
    yield _line("a header over two lines", _GET + _HOST + b"X: 1\r\n 2\r\n" + _END, 200, 400)
    yield _line("a header's value that begins with a colon", _GET + _HOST + b" : 1\r\n" + _END, 200)
    yield _line("no host", _GET + _END, 400)
    yield _line("two hosts", _GET + _HOST + b"Host: y\r\n" + _END, 400)
    yield _line("one host twice", _GET + _HOST + _HOST + _END, 400)


def _sizes() -> Iterator[Line]:
    twenty = b"X: " + b"a" * 20_000 + b"\r\n"
    yield _line("a header of 20 kB", _GET + _HOST + twenty + _END, 200, 431)
    yield _line("a header of 1 MB", _GET + _HOST + b"X: " + b"a" * 10**6 + b"\r\n" + _END, 431)
    yield _line("a header without an end", _GET + _HOST + b"X: " + b"a" * 200_000, 431)
    yield _line("a name without an end", _GET + _HOST + b"X" * 200_000, 431)
    yield _line("a line without an end", b"GET /" + b"a" * 200_000, 414, 431)
    yield _line("a method without an end", b"G" * 200_000, 400, 431)
    many = b"".join(b"X-%d: 1\r\n" % number for number in range(150))
    yield _line("150 headers", _GET + _HOST + many + _END, 200)
    yield _line("150 headers without an end", _GET + _HOST + many, 408)
    endless = b"".join(b"X-%d: 1\r\n" % number for number in range(5_000))
    yield _line("5,000 headers", _GET + _HOST + endless + _END, 200, 431)
    long = b"GET /api/v1/jobs?cursor=" + b"a" * 9_000 + b" HTTP/1.1\r\n"
    yield _line("an address of 9 kB", long + _HOST + _END, 422)


def _lengths() -> Iterator[Line]:
    for value in (
        *(b"", b"-1", b"+5", b"0x5", b"5.0", b"5e0", b"5 5", b"5,6", b"5;5", b"a", b"\xff", b"5a"),
        *(
            b"9" * 20,
            b"9" * 400,
            b"1" * 25,
            b"(5)",
            b'"5"',
            b"5\x00",
            b"NaN",
            b"5\x0b",
            b", 5",
            b"_5",
        ),
    ):
        raw = _POST + b"Content-Length: " + value + b"\r\n" + _END + _HIDDEN
        yield _line(f"the length {value[:30]!r}", raw, 400, 413)
    two = b"Content-Length: 5\r\nContent-Length: 6\r\n"
    yield _line("two lengths", _POST + two + _END + _HIDDEN, 400)
    large = b"Content-Length: %d\r\n"
    for size in (16 * 2**20 + 1, 2**31, 2**32 + 5, 2**53, 10**17):
        yield _line(f"a length of {size}", _POST + large % size + _END, 413)
    asks = _POST + large % 2**40 + b"Expect: 100-continue\r\n" + _END
    yield _line("a client that asks first, for too much", asks, 413)
    yield _line("17 MiB", _POST + large % (17 * 2**20) + _END + b" " * (17 * 2**20), 413)
    within = _GET + _HOST + b"Content-Length: %d\r\n" % len(_HIDDEN) + _END + _HIDDEN
    yield _line("a request within the body of a GET", within, 200)
    short = _POST + b"Content-Length: 2\r\nConnection: keep-alive\r\n\r\n{}" + _HIDDEN[:-4]
    yield Line("a body longer than it says", short, ((422, 408),))


def _codings() -> Iterator[Line]:
    chunk = b"%x\r\n" % len(SUBMISSION) + SUBMISSION + b"\r\n0\r\n\r\n"
    for value in (
        *(b"", b"identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked", b"x"),
        *(
            b"chunked, identity",
            b"xchunked",
            b"chunkedx",
            b"chunke",
            b"chunked;q=1",
            b"\x0bchunked",
        ),
        *(b"chunked\x0b", b'"chunked"', b"chunked,", b",chunked", b"chunked\x00", b"\xffchunked"),
    ):
        raw = _POST + b"Transfer-Encoding: " + value + b"\r\n" + _END + chunk + _HIDDEN
        yield _line(f"the coding {value!r}", raw, 400)
    both = _LENGTH + _CHUNKED
    yield _line("length, then chunks", _POST + both + _END + chunk + _HIDDEN, 400)
    yield _line("chunks, then length", _POST + _CHUNKED + _LENGTH + _END + chunk + _HIDDEN, 400)
    zero = b"Content-Length: 0\r\n" + _CHUNKED
    yield _line("length 0 and chunks", _POST + zero + _END + chunk + _HIDDEN, 400)
    hides = b"Content-Length: 6\r\n" + _CHUNKED + _END + b"0\r\n\r\n" + _HIDDEN
    yield _line("a request behind the last chunk", _POST + hides, 400)
    yield _line("chunks twice", _POST + _CHUNKED * 2 + _END + chunk, 400)
    old = _POST.replace(b"HTTP/1.1", b"HTTP/1.0") + _CHUNKED + _END + chunk
    yield _line("chunks in HTTP/1.0", old, 400)
    for name in (
        b"Transfer-Encoding ",
        b" Transfer-Encoding",
        b"Transfer-Encoding\t",
        b"Transfer\0-",
    ):
        raw = _POST + _LENGTH + name + b": chunked\r\n" + _END + chunk
        yield _line(f"the header {name!r}", raw, 400)


def _chunks() -> Iterator[Line]:
    for size in (
        *(b"", b"g", b"-1", b"+5", b"0x5", b" 5", b"5 5", b"5,", b"5.0", b"\xff", b"5\x00", b"_5"),
        *(b"f" * 21, b"0" * 30 + b"5", b"5\r", b"\t5", b"'5'", b"5h", b"0x", b"--", b"5:"),
    ):
        raw = _POST + _CHUNKED + _END + size + b"\r\nabcde\r\n0\r\n\r\n" + _HIDDEN
        yield _line(f"a chunk of size {size!r}", raw, 400)
    for told, chunks in {
        "more data than its size": b"2\r\n{}}\r\n0\r\n\r\n",
        "less data than its size": b"5\r\n{}\r\n0\r\n\r\n",
        "no line's end after its data": b"2\r\n{}0\r\n\r\n",
        "another line's end after its data": b"2\r\n{}\n\n0\r\n\r\n",
        "an extension with NUL": b"2;a=\0\r\n{}\r\n0\r\n\r\n",
        "an extension without an end": b"2;" + b"a" * 200_000,
    }.items():
        raw = _POST + _CHUNKED + _END + chunks
        yield _line(f"a chunk with {told}", raw, 400, 408, 422, 431)
    trailers = b"0\r\n" + b"X: 1\r\n" * 5_000 + b"\r\n"
    yield _line("5,000 trailers", _POST + _CHUNKED + _END + trailers, 400, 422, 431)
    yield _line("a trailer that is none", _POST + _CHUNKED + _END + b"0\r\nX\r\n\r\n", 400)
    huge = b"%x\r\n" % 2**40 + b" " * 2**20
    yield _line("a chunk of 1 TiB, begun", _POST + _CHUNKED + _END + huge, 408, 413)
    stream = (b"100000\r\n" + b" " * 2**20 + b"\r\n") * 17
    yield _line("17 MiB in chunks", _POST + _CHUNKED + _END + stream, 413)


def _waiting() -> Iterator[Line]:
    """A client that stops before it has said everything, with its line open or half closed."""
    head = _GET + _HOST
    for end in (0, 1, 3, 10, len(_GET) - 1, len(_GET), len(head) - 1, len(head)):
        yield _line(f"the first {end} bytes of a head", head[:end], 408)
        yield Line(f"the first {end} bytes, half closed", head[:end], _GONE, half_closed=True)
    body = _POST + _LENGTH + b"\r\n" + SUBMISSION
    for left in (1, 10, len(SUBMISSION)):
        yield _line(f"all but {left} bytes of a body", body[:-left], 408)
        yield Line(f"all but {left} bytes, half closed", body[:-left], _GONE, half_closed=True)
    chunked = _POST + _CHUNKED + b"\r\n"
    for part in (b"", b"5", b"5\r\n", b"5\r\nab", b"2\r\n{}\r\n", b"2\r\n{}\r\n0\r\n"):
        yield _line(f"the chunks {part!r} so far", chunked + part, 408)
        yield Line(f"the chunks {part!r}, half closed", chunked + part, _GONE, half_closed=True)
    keep, chunk = _GET + _HOST + b"\r\n", b"%x\r\n" % len(SUBMISSION) + SUBMISSION
    for told, raw, statuses in (
        ("a request", keep, (200,)),
        ("a last request", head + _END, (200,)),
        ("a request of HTTP/1.0", keep.replace(b"HTTP/1.1", b"HTTP/1.0"), (200,)),
        ("fifty requests", keep * 50, (200,) * 50),
        ("a body", body, (201,)),
        ("a body in a chunk", chunked + chunk + b"\r\n0\r\n\r\n", (201,)),
        ("a request and a part of one", keep + keep[:9], (200, 400)),
        ("a request and a part of a body", keep + body[:-1], (200, 400)),
        ("a refused one", _POST + b"Content-Length: 2\r\n\r\n[]", (422,)),
    ):
        yield Line(f"{told}, half closed", raw, (statuses,), half_closed=True)


def _several() -> Iterator[Line]:
    """More than one request on one line."""
    keep = _GET + _HOST + b"\r\n"
    last = _GET + _HOST + _END
    yield Line("two requests at once", keep + last, ((200, 200),))
    yield Line("fifty requests at once", keep * 49 + last, ((200,) * 50,))
    yield Line("a good one and a bad one", keep + b"nonsense\r\n\r\n", ((200, 400),))
    yield Line("a good one and a part of one", keep + keep[:9], ((200, 408),))
    yield Line("empty lines before a request", b"\r\n\r\n" + last, ((200,), (400,)))
    refused = _POST + b"Content-Length: 2\r\n\r\n[]"
    yield Line("a refused one and a good one", refused + last, ((422, 200),))
    untyped = _POST.replace(b"json", b"xml") + b"Content-Length: 2\r\n\r\n{}"
    yield Line("one of a wrong type, and one behind it", untyped + last, ((415,), (415, 200)))
    after = _GET + _HOST + _END + _HIDDEN
    yield _line("a request after the last one", after, 200)
