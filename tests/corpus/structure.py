"""The shape of a document: depth, size, and names that repeat, are missing or unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from corpus.case import DOCUMENTS, LABEL, SUBMISSION, WHOLE, Case, of_document

_KINDS: dict[str, dict[tuple[str, ...], str]] = {
    "submission": {
        ("revision",): "text",
        ("case",): "object?",
        ("case", "workload"): "text",
        ("case", "preset"): "text",
        ("case", "axes"): "object",
        ("case", "axes", "precision"): "text",
        ("requires",): "object",
        ("requires", "device"): "text",
        ("priority",): "number",
        ("timeout_s",): "number",
    },
    "worker": {
        ("name",): "text",
        ("labels",): "object",
        ("labels", "device"): "text",
        ("version",): "text",
    },
    "schedule": {
        ("cron",): "text",
        ("suite",): "text",
        ("timezone",): "text",
        ("enabled",): "boolean",
    },
    "beat": {
        ("progress",): "object?",
        ("progress", "replicate"): "number",
        ("progress", "phase"): "text",
        ("progress", "step"): "number",
        ("progress", "fraction"): "number",
    },
}
"""What each field of the documents is; a question mark lets it be null."""
_NEEDED = {
    "submission": [("revision",), ("case", "workload")],
    "worker": [("name",)],
    "schedule": [("cron",), ("suite",)],
    "beat": [("progress", "phase")],
}
_SAMPLES: tuple[tuple[str, Any], ...] = (
    *(("null", None), ("boolean", True), ("boolean", False), ("number", 0), ("number", -1)),
    *(("number", 1.5), ("number", 10**15), ("text", ""), ("text", "0"), ("text", "true")),
    *(("text", "null"), ("array", []), ("array", [1]), ("array", [[]]), ("array", [{}])),
    *(("array", ["a", "b"]), ("object", {"": ""}), ("object", {"a": None}), ("object", {"0": []})),
)
_UNKNOWN = (
    *("x", "", " ", "Case", "CASE", "case ", " case", "case\t", "__proto__", "constructor"),
    *("prototype", "toString", "$ref", "$schema", "_id", "id", "self", "model_config", "__class__"),
    *("0", "a.b", "a[b]", "a/b", "c\u0430se", "\u0441ase", "ca\u017fe", "case\u200b", "\ufeffcase"),
)


def cases() -> Iterator[Case]:
    """Every case of this file."""
    yield from _deep()
    yield from _wide()
    for kind in DOCUMENTS:
        yield from _repeated(kind)
        yield from _unknown(kind)
        yield from _missing(kind)
        yield from _mistyped(kind)
        yield from _reordered(kind)
    yield from _no_object()


def _deep() -> Iterator[Case]:
    for depth in (1, 2, 31, 100, 127, 128, 199, 200, 201, 500, 1_025):
        arrays = b"[" * depth + b"]" * depth
        objects = b'{"a":' * depth + b"1" + b"}" * depth
        mixed = b'[{"a":' * depth + b"1" + b"}]" * depth
        for where in (WHOLE, LABEL):
            yield where.case(f"{depth} arrays deep", arrays, 400)
            yield where.case(f"{depth} objects deep", objects, 400)
        yield WHOLE.case(f"{depth} pairs deep", mixed, 400)
    for depth in (10_000, 100_000, 250_000):
        for told, sign in (("arrays", b"["), ("objects", b'{"a":'), ("empty names", b'{"":')):
            yield WHOLE.case(f"{depth} {told} opened", sign * depth, 400)
        yield WHOLE.case(f"{depth} arrays closed again", b"[" * depth + b"]" * depth, 400)
        yield WHOLE.case(f"{depth} closed", b"]" * depth, 400)


def _wide() -> Iterator[Case]:
    yield WHOLE.case("150,000 unknown fields", _fields(150_000), 422)
    yield WHOLE.case("20,000 unknown fields", _fields(20_000), 422)
    yield WHOLE.case("200,001 numbers", b"[" + b"1," * 200_001 + b"1]", 400)
    yield WHOLE.case("1,000,000 numbers", b"[" + b"1," * 1_000_000 + b"1]", 400)
    yield WHOLE.case("150,000 numbers", b"[" + b"1," * 150_000 + b"1]", 422)
    yield WHOLE.case("200,001 empty arrays", b"[" + b"[]," * 200_000 + b"[]]", 400)
    yield WHOLE.case("5,000,000 empty arrays", b"[" + b"[]," * 5_000_000 + b"[]]", 400)
    yield WHOLE.case("commas within a string", b'"' + b"," * 200_001 + b'"', 400)
    yield WHOLE.case("a string of 4 MiB", b'"' + b"a" * 2**22 + b'"', 422)
    yield WHOLE.case("a string of 1 Mi escapes", b'"' + b"\\u0041" * 2**20 + b'"', 422)
    yield WHOLE.case("7 MiB of spaces", b" " * (7 * 2**20) + SUBMISSION, 201)
    much = b" " * (16 * 2**20 + 1 - len(SUBMISSION))
    yield WHOLE.case("16 MiB and a byte", much + SUBMISSION, 413)
    yield WHOLE.case("17 MiB of nothing", b"\0" * (17 * 2**20), 413)
    yield LABEL.case("a name of 1 MiB", b'{"' + b"a" * 2**20 + b'":1}', 422)
    many = b",".join(b'{"workload":"unet"}' for _ in range(501))
    yield WHOLE.case("501 cases", b'{"revision":"r","cases":[' + many + b"]}", 422)
    for count, status in ((64, 200), (65, 422), (5_000, 422)):
        labels = {f"l{number}": "x" for number in range(count)}
        body = json.dumps({"name": "corpus", "labels": labels}).encode()
        yield of_document("worker", f"{count} labels", body, status)


def _fields(count: int) -> bytes:
    return b"{" + b",".join(b'"f%d":1' % number for number in range(count)) + b"}"


def _fields_of(kind: str) -> Iterator[tuple[dict[str, Any], tuple[str, ...], Any]]:
    """A fresh document, the path of one of its fields, and the object that holds the field."""
    for path in _KINDS[kind]:
        document = json.loads(DOCUMENTS[kind][2])
        holder = document
        for name in path[:-1]:
            holder = holder[name]
        yield document, path, holder


def _repeated(kind: str) -> Iterator[Case]:
    """One name twice in one object: the last value counts, on both databases."""
    for document, path, holder in _fields_of(kind):
        name, value = path[-1], holder[path[-1]]
        told = ".".join(path)
        escaped = f"\\u{ord(name[0]):04x}{name[1:]}"
        for again, spelled in (("twice", name), ("by an escape", escaped)):
            for other in (value, []):
                marked = json.dumps({"\0": "mark"} | document)  # to find the object again below
                holder["\0"] = value
                marked = json.dumps(document)
                del holder["\0"]
                body = marked.replace('"\\u0000": ' + json.dumps(value), _pair(spelled, other))
                said = f"{told} {again} with {json.dumps(other)}"
                yield of_document(kind, said, body.encode(), 200, 201, 422)
    body = DOCUMENTS[kind][2]
    for name in ("zzz", "", "é", "\\u00e9", "\\u0000"):
        twice = body[:-1] + f', "{name}": 1, "{name}": 2}}'.encode()
        yield of_document(kind, f"the unknown field {name!r} twice", twice, 422)


def _pair(name: str, value: Any) -> str:
    return f'"{name}": {json.dumps(value)}'


def _unknown(kind: str) -> Iterator[Case]:
    for name in _UNKNOWN:
        document = json.loads(DOCUMENTS[kind][2]) | {name: 1}
        if name != "x" and json.dumps({name: 1}) in json.dumps(document):
            continue
        body = json.dumps(document).encode()
        yield of_document(kind, f"the unknown field {name!a}", body, 422)
    for document, path, holder in _fields_of(kind):
        if path[-2:-1] in (("axes",), ("requires",), ("labels",)):
            continue  # names in there are the sender's own
        holder[f"{path[-1]}_"] = holder[path[-1]]
        body = json.dumps(document).encode()
        yield of_document(kind, f"the unknown field {'.'.join(path)}_", body, 422)


def _missing(kind: str) -> Iterator[Case]:
    for document, path, holder in _fields_of(kind):
        del holder[path[-1]]
        body = json.dumps(document).encode()
        needed = path in _NEEDED[kind] or path == ("case",)
        statuses = (422,) if needed else (200, 201)
        yield of_document(kind, f"without {'.'.join(path)}", body, *statuses)


def _mistyped(kind: str) -> Iterator[Case]:
    for document, path, holder in _fields_of(kind):
        right = _KINDS[kind][path]
        for type_, sample in _SAMPLES:
            if type_ == right.rstrip("?"):
                continue
            if type_ == "null" and (right.endswith("?") and kind == "beat"):
                continue
            holder[path[-1]] = sample
            body = json.dumps(document).encode()
            said = f"{'.'.join(path)} is {json.dumps(sample)}"
            yield of_document(kind, said, body, 422)


def _reordered(kind: str) -> Iterator[Case]:
    document = json.loads(DOCUMENTS[kind][2])
    names = list(document)
    for turn in range(1, len(names)):
        turned = {name: document[name] for name in names[turn:] + names[:turn]}
        body = json.dumps(turned).encode()
        yield of_document(kind, f"turned by {turn}", body, 200, 201)


def _no_object() -> Iterator[Case]:
    for kind in DOCUMENTS:
        for text in ("null", "true", "false", "0", "-1.5", '""', '"a"', "[]", "[{}]", "[null]"):
            yield of_document(kind, f"only {text}", text.encode(), 422)
        for body in (b" ", b"\n", b"\t\r\n "):
            yield of_document(kind, f"only the spaces {body!r}", body, 400)
        yield of_document(kind, "nothing at all", b"", 422)
    yield of_document("worker", "an empty object", b"{}", 422)
    yield of_document("schedule", "an empty object", b"{}", 422)
    yield of_document("submission", "an empty object", b"{}", 422)
    yield of_document("beat", "an empty object", b"{}", 200)
