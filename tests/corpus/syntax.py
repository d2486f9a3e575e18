"""JSON's grammar: where a token begins, ends, is missing or is too many."""

from __future__ import annotations

import json
from collections.abc import Iterator

from corpus.case import DOCUMENTS, LABEL, WHOLE, Case, of_document

_SPACES = (b" ", b"\t", b"\n", b"\r", b" \r\n\t ")
_NO_SPACES = {
    "vertical tab": b"\x0b",
    "form feed": b"\x0c",
    "NUL": b"\x00",
    "no-break space": "\u00a0".encode(),
    "ogham space": "\u1680".encode(),
    "line separator": "\u2028".encode(),
    "ideographic space": "\u3000".encode(),
    "byte order mark": "\ufeff".encode(),
    "zero-width space": "\u200b".encode(),
    "backspace": b"\x08",
    "delete": b"\x7f",
    "comment": b"/**/",
    "line comment": b"//\n",
    "hash": b"#\n",
}
_NO_VALUES = (
    *("tru", "truee", "True", "TRUE", "fals", "False", "nul", "nulll", "Null", "None", "nil"),
    *("undefined", "NaN", "-NaN", "nan", "Infinity", "-Infinity", "+Infinity", "inf", "-inf"),
    *("'a'", "`a`", "a", '"a', 'a"', '"a""b"', '"a" "b"', '"a"+"b"', '""""', "\\", '"\\"'),
    *("[", "]", "[[", "[]]", "[1,]", "[,1]", "[,]", "[1,,2]", "[1 2]", "[1;2]", "[1:2]", "(1)"),
    *("{", "}", "{}}", "{{}}", "{,}", '{"a"}', '{"a":}', '{"a":1,}', '{,"a":1}', '{"a" 1}'),
    *('{"a"::1}', '{"a":1 "b":2}', '{"a":1;"b":2}', "{a:1}", "{'a':1}", "{1:1}", "{null:1}"),
    *("{true:1}", "{[]:1}", "{{}:1}", '{"a":1,,"b":2}', '{"a"=1}', '{"a"=>1}', '{"a":1}}'),
    *('{"a":[}', '{"a":{]}', '[{"a":1]', "[}", "{]", "<a/>", "<", "&", "@", "!", "?", "~", "^"),
    *(":", ",", ";", ".", "-", "+", "*", "/", "=", "%", "$", "|", "0x10", "b'a'", 'r"a"', 'u"a"'),
    *("new Date()", "/a/", "1/2", "1+1", "1..2", "...", "[...]", '{"...":}', "[1,2", "[1,2}"),
    *('["a', '["a]', '["a\\"]', '{"a":"b', '{"a":"b\\"}', "[true,fals]", "[nul]", "[TRUE]"),
    *("1,", ",1", "1 2", "[] []", "{} {}", "[1]{}", '"a"1', "truefalse", "null null", "1]"),
)


def cases() -> Iterator[Case]:
    """Every case of this file."""
    yield from _no_values()
    yield from _cut()
    yield from _changed()
    yield from _spaced()
    yield from _around()


def _no_values() -> Iterator[Case]:
    for text in _NO_VALUES:
        value = text.encode()
        for where in (WHOLE, LABEL):
            yield where.case(f"the value {text}", value, 400)
        yield WHOLE.case(f"in an array, {text}", b'{"revision":["r",' + value + b"]}", 400)


def _cut() -> Iterator[Case]:
    """A body that ends early: none of its beginnings is a document."""
    for kind, (_, _, body) in DOCUMENTS.items():
        for end in range(1, len(body), 3):
            yield of_document(kind, f"only {end} bytes", body[:end], 400)


def _changed() -> Iterator[Case]:
    """One byte of the grammar taken out, doubled, or made another."""
    for kind, (_, _, body) in DOCUMENTS.items():
        for place, byte in enumerate(body):
            sign = bytes([byte])
            if sign not in b'{}[]:,"':
                continue
            before, after = body[:place], body[place + 1 :]
            told = f"byte {place} ({sign.decode()})"
            yield of_document(kind, f"{told} left out", before + after, 400)
            other = b";" if sign != b"," else b":"
            yield of_document(kind, f"{told} made {other.decode()}", before + other + after, 400)
            if sign != b'"':
                yield of_document(kind, f"{told} twice", before + sign * 2 + after, 400)


def _spaced() -> Iterator[Case]:
    for kind, (_, _, body) in DOCUMENTS.items():
        tight = json.dumps(json.loads(body), separators=(",", ":")).encode()
        for place in _between(tight):
            for number, space in enumerate(_SPACES):
                if place % len(_SPACES) == number:  # each kind somewhere, not everywhere
                    spaced = tight[:place] + space + tight[place:]
                    yield of_document(kind, f"space {space!r} at {place}", spaced, 200, 201)
        for told, space in _NO_SPACES.items():
            for place in _between(tight)[::5]:
                spaced = tight[:place] + space + tight[place:]
                yield of_document(kind, f"{told} for a space at {place}", spaced, 400)


def _between(tight: bytes) -> list[int]:
    """The places of a document without spaces at which JSON allows one."""
    places, within = [0], False
    for place, byte in enumerate(tight):
        if byte == ord('"'):
            within = not within
        if not within and byte in b'{}[]:,"':
            places.append(place + 1)
    return places


def _around() -> Iterator[Case]:
    """What stands before or after a good document."""
    for kind, (_, _, body) in DOCUMENTS.items():
        for text in ("null", "1", '"a"', "{}", "[]", ",", ";", "]", "}", ")", "x", "\\", "'", '"'):
            extra = text.encode()
            yield of_document(kind, f"{text} after it", body + b" " + extra, 400)
            yield of_document(kind, f"{text} before it", extra + b" " + body, 400)
        yield of_document(kind, "itself after it", body + body, 400)
        yield of_document(kind, "a line of its own after it", body + b"\n" + body, 400)
        yield of_document(kind, "a record separator before it", b"\x1e" + body, 400)
        yield of_document(kind, "a guard before it", b")]}',\n" + body, 400)
        yield of_document(kind, "a call around it", b"f(" + body + b");", 400)
        yield of_document(kind, "a string around it", json.dumps(body.decode()).encode(), 422)
        yield of_document(kind, "an array around it", b"[" + body + b"]", 422)
